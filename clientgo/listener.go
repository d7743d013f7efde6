package clientgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
)

// note is what a handler is told once.
type note struct {
	kind    noteKind
	initial bool // of the informer's first list, or of the state that a handler found
	sync    bool // for handlers that are due for a resync, and no others
	old     any
	new     any
}

type noteKind uint8

const (
	added noteKind = iota + 1
	updated
	deleted
)

// listener is a handler with its queue, and the registration that the program has of it.
//
// The queue is as long as what the handler has not been told: nothing is folded, unless
// asked for, and nobody waits. One goroutine calls the handler; it takes what there is and gives its emptied
// memory in exchange, so that a handler that keeps up costs no allocation.
type listener struct {
	logger  klog.Logger
	handler cache.ResourceEventHandler
	tracker *synctrack.SingleFileTracker
	survive bool // see Behaviour.SurvivePanics

	quit     chan struct{} // closed when it is to end
	quitting atomic.Bool   // says the same, cheaply
	finished chan struct{} // closed when the handler will not be called again

	mu     sync.Mutex // guards queue and folded
	queue  []note
	folded *backlog  // in place of queue, see Behaviour.FoldBacklog; nil without it
	filled sync.Cond // there is something queued, or it is to end

	// Of resyncs, guarded by the informer's deltas.
	syncing       bool // told of syncs until the next look
	wanted, every time.Duration
	next          time.Time
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (l *listener) HasSynced() bool { return l.tracker.HasSynced() }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.tracker }

// ShutdownChan is what cache.ShutDownEventHandler waits for.
func (l *listener) ShutdownChan() <-chan struct{} { return l.finished }

// add queues notes; where some are syncs, only those that are for this handler.
func (l *listener) add(notes []note, syncs bool) {
	filter := syncs && !l.syncing
	l.mu.Lock()
	if l.folded != nil {
		l.fold(notes, filter)
		l.mu.Unlock()
		l.filled.Signal()
		return
	}
	if !filter {
		l.queue = append(l.queue, notes...)
	}
	for i := range notes {
		if notes[i].initial {
			l.tracker.Start() // before the handler can finish it
		}
		if filter && !notes[i].sync {
			l.queue = append(l.queue, notes[i])
		}
	}
	l.mu.Unlock()
	l.filled.Signal()
}

// fold queues notes in a backlog that folds them, without the syncs where filter says so.
func (l *listener) fold(notes []note, filter bool) {
	for i := range notes {
		if filter && notes[i].sync {
			continue
		}
		switch l.folded.add(notes[i]) {
		case 1:
			l.tracker.Start()
		case -1:
			l.tracker.Finished() // it will not be told
		}
	}
}

// take returns what is queued, and goes on in the memory it is given. The caller has the
// lock.
func (l *listener) take(memory []note) (notes []note) {
	if l.folded != nil {
		return l.folded.take(memory)
	}
	notes, l.queue = l.queue, memory
	return notes
}

// idle reports whether nothing is queued. The caller has the lock.
func (l *listener) idle() bool {
	return len(l.queue) == 0 && (l.folded == nil || len(l.folded.notes) == 0)
}

// run calls the handler until it is told to end; what is queued then is dropped.
func (l *listener) run() {
	defer close(l.finished)
	var notes []note
	for {
		l.mu.Lock()
		for l.idle() && !l.quitting.Load() {
			l.filled.Wait()
		}
		if l.quitting.Load() {
			l.mu.Unlock()
			return
		}
		notes = l.take(notes)
		l.mu.Unlock()
		for from := 0; from < len(notes); {
			crashed := false
			if from, crashed = l.deliver(notes, from); from < 0 {
				return
			}
			if crashed && !l.survive { // and the program lives on
				select {
				case <-time.After(time.Second):
				case <-l.quit:
				}
			}
		}
		notes = recycle(notes)
	}
}

// deliver calls the handler for notes[from:], up to one on which it panics. It returns
// which is next, or less than 0 when it is to end.
func (l *listener) deliver(notes []note, from int) (next int, crashed bool) {
	next, crashed = from, true
	if l.survive {
		defer l.survivePanic(notes, &next)
	} else {
		defer utilruntime.HandleCrashWithLogger(l.logger)
	}
	for next < len(notes) {
		if l.quitting.Load() {
			return -1, false
		}
		n := &notes[next]
		next++
		switch n.kind {
		case added:
			l.handler.OnAdd(n.new, n.initial)
			if n.initial {
				l.tracker.Finished()
			}
		case updated:
			l.handler.OnUpdate(n.old, n.new)
		case deleted:
			l.handler.OnDelete(n.old)
		}
	}
	return next, false
}

func (l *listener) survivePanic(notes []note, next *int) {
	thrown := recover()
	if thrown == nil {
		return
	}
	for _, handle := range utilruntime.PanicHandlers {
		handle(klog.NewContext(context.Background(), l.logger), thrown)
	}
	if n := &notes[*next-1]; n.initial {
		l.tracker.Finished()
	}
}

// end has the handler called no more; whoever waits for that waits for finished.
func (l *listener) end() {
	l.mu.Lock()
	l.quitting.Store(true)
	l.mu.Unlock()
	close(l.quit)
	l.filled.Signal()
}

// AddEventHandler implements cache.SharedInformer.
func (inf *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (inf *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resyncPeriod time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (inf *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.stopped {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", handler)
	}
	logger := klog.Background()
	if options.Logger != nil {
		logger = *options.Logger
	}
	period := inf.period
	if options.ResyncPeriod != nil {
		period = *options.ResyncPeriod
	}
	l := &listener{
		logger:   logger,
		handler:  handler,
		tracker:  synctrack.NewSingleFileTracker(inf.HasSyncedChecker().Name() + " + event handler " + handlerName(handler)),
		survive:  inf.behaviour.SurvivePanics,
		quit:     make(chan struct{}),
		finished: make(chan struct{}),
		syncing:  true,
	}
	l.filled.L = &l.mu
	if inf.behaviour.FoldBacklog {
		l.folded = &backlog{}
	}

	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	l.wanted = inf.negotiate(logger, period)
	l.every = granted(logger, l.wanted, inf.checkPeriod)
	l.next = time.Now().Add(l.every)
	inf.listeners = append(inf.listeners, l)
	if inf.started {
		l.add(inf.present(), false)
		inf.serve(l)
	}
	return l, nil
}

// present returns the store's state as what a new handler is told.
func (inf *informer) present() []note {
	var notes []note
	for _, c := range inf.indexer.everythingOnce() {
		for _, obj := range c.objs {
			notes = append(notes, note{kind: added, initial: true, new: obj})
		}
	}
	return notes
}

var errForeign = errors.New("invalid key type: the registration is not one of this package's")

// RemoveEventHandler implements cache.SharedInformer.
func (inf *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	l, ok := handle.(*listener)
	if !ok {
		return errForeign
	}
	at := slices.Index(inf.listeners, l)
	if at < 0 {
		return nil // gone, or another informer's
	}
	inf.listeners = slices.Delete(inf.listeners, at, at+1)
	l.end()
	if !inf.running {
		close(l.finished)
	}
	return nil
}

// stopHandlers ends all of them.
func (inf *informer) stopHandlers() {
	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	for _, l := range inf.listeners {
		l.end()
	}
	inf.listeners, inf.running = nil, false
}
