package clientgo

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/informer"
)

// listener is a handler, its subscription, and the registration that the program has of it.
type listener struct {
	inf     *sharedInformer
	logger  klog.Logger
	handler cache.ResourceEventHandler
	sub     *informer.Subscription
	name    string
	synced  chan struct{} // closed when the handler has been called for the initial state
	quit    chan struct{} // closed when the handler is removed; the informer's lock guards that

	// syncing: the handler is called for updates that leave the version unchanged, until the
	// next check for resyncs.
	syncing atomic.Bool

	// Of the goroutine that calls the handler:
	initial bool // it is called for an object of the initial state
	lost    bool // it panicked on one of these

	// Guarded by the informer's lock:
	wanted, every time.Duration
	next          time.Time
}

func (l *listener) HasSynced() bool                     { return isClosed(l.synced) }
func (l *listener) HasSyncedChecker() cache.DoneChecker { return done{l.name, l.synced} }

// ShutdownChan is what cache.ShutDownEventHandler waits for.
func (l *listener) ShutdownChan() <-chan struct{} { return l.sub.Done() }

// subscribe starts to call the handler. As in client-go, if the informer has not started, it is not
// called for objects that the program has put into the store.
func (l *listener) subscribe(started bool) (err error) {
	l.sub, err = l.inf.core.Subscribe(informer.Handler[record]{
		OnAdd: func(r record, initial bool) {
			l.initial = initial
			l.call(func() { l.handler.OnAdd(r.obj, initial) })
		},
		OnUpdate: func(old, new record) { l.call(func() { l.update(old.obj, new.obj) }) },
		OnResync: func(r record) {
			l.initial = false
			l.call(func() { l.handler.OnUpdate(r.obj, r.obj) })
		},
		OnDelete: func(r record, unknown bool) {
			l.initial = false
			l.call(func() {
				if unknown {
					l.vanished(r.obj)
				} else {
					l.handler.OnDelete(r.obj)
				}
			})
		},
	}, informer.SubOptions[record]{
		Name:        l.name,
		EveryChange: true,
		FromNow:     !started,
		OnPanic:     l.panicked,
		OnSynced: func() {
			if !l.lost {
				close(l.synced)
			}
		},
	})
	return err
}

// call calls the handler. As in client-go a panic is a crash, which apimachinery logs with the
// line that panicked; if the program survives it, the handler pauses for a second.
func (l *listener) call(f func()) {
	panicked := true
	defer func() {
		if panicked && !utilruntime.ReallyCrash {
			l.pause()
		}
	}()
	defer utilruntime.HandleCrashWithLogger(l.logger)
	f()
	panicked = false
}

// pause is called after a panic that the program survived.
func (l *listener) pause() {
	l.lost = l.lost || l.initial
	select {
	case <-time.After(time.Second):
	case <-l.quit:
	case <-l.inf.run.Done():
	}
}

// vanished calls the handler for a deletion that was not observed.
func (l *listener) vanished(last any) {
	key, err := keyOf(last)
	if err != nil {
		panic(err) // it was held under its key
	}
	l.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: last})
}

func (l *listener) update(old, new any) {
	l.initial = false
	if l.syncing.Load() || !sameVersion(old, new) {
		l.handler.OnUpdate(old, new)
	}
}

// sameVersion reports whether two objects have the same version. Such an update is for handlers that
// are due for a resync only.
func sameVersion(old, new any) bool {
	was, ok1 := old.(metav1.Object)
	is, ok2 := new.(metav1.Object)
	return ok1 && ok2 && was.GetResourceVersion() == is.GetResourceVersion()
}

// panicked is called by the core when the handler has panicked: it ends the program.
func (l *listener) panicked(e *informer.PanicError) {
	go panic(e.Value) // in a goroutine of its own, because the core survives the panic of a handler
	select {}
}

func (inf *sharedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (inf *sharedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resyncPeriod time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return inf.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

func (inf *sharedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	logger := klog.Background()
	if options.Logger != nil {
		logger = *options.Logger
	}
	period := inf.period
	if options.ResyncPeriod != nil {
		period = *options.ResyncPeriod
	}
	l := &listener{
		inf:     inf,
		logger:  logger,
		handler: handler,
		name:    handlerName(inf.example, handler),
		synced:  make(chan struct{}),
		quit:    make(chan struct{}),
	}
	l.syncing.Store(true)
	if l.subscribe(inf.started) != nil {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", handler)
	}
	l.wanted = inf.negotiate(logger, period)
	l.every = granted(logger, l.wanted, inf.checkPeriod)
	l.next = time.Now().Add(l.every)
	inf.listeners = append(inf.listeners, l)
	return l, nil
}

// handlerName returns the name of a handler's registration, which is that of client-go's.
func handlerName(example runtime.Object, handler cache.ResourceEventHandler) string {
	unused := cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, nil) // never started
	return must(unused.AddEventHandler(handler)).HasSyncedChecker().Name()
}

var errForeign = errors.New("invalid key type: the registration is not one of this package's")

func (inf *sharedInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return errForeign
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	at := slices.Index(inf.listeners, l)
	if at < 0 {
		return nil // removed before, or another informer's
	}
	inf.listeners = slices.Delete(inf.listeners, at, at+1)
	close(l.quit)
	l.sub.Remove()
	return nil
}
