package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// Informer is a live mirror of a resource. Create one with [New] and start it with
// [Informer.Run].
//
// Guarantees:
//
//   - A snapshot has every change up to the version in its Marks, and no later change except
//     deletions at the next version; see [store.Snapshot.Version].
//   - Each subscriber is called by one goroutine at a time, in the order of changes, and only for
//     state that readers can already see.
//   - A slow subscriber delays neither other subscribers, nor readers, nor the mirror.
//   - All goroutines have ended when Run returns. The mirror can still be read after that.
//
// All methods may be called from any goroutine, including callbacks, before, during and after
// Run. None waits for a subscriber.
type Informer[T any] struct {
	acc   object.Accessor[T]
	src   reflector.Source[T]
	opts  Options[T]
	queue *delta.Buffer[T]
	store *store.Store[T]
	log   *log[T]

	writes  *Writes[T]
	selects selects
	synced  chan struct{}
	ended   chan struct{} // closed when the mirror does not change any more
	moved   bell          // rung after every batch, and when the set of sources changes

	// writer is held while a revision is made and logged; mu may be taken inside it.
	writer  sync.Mutex
	refused atomic.Uint64
	refusal atomic.Pointer[error]
	audited atomic.Pointer[Audit] // read-only once stored
	// selective: objects may leave the mirror, and enter it, without being deleted or created.
	selective atomic.Bool

	mu    sync.Mutex // guards all below
	phase phase
	// run is the context of Run. start sets it once, before it starts the goroutines that read it without mu: those of
	// sources and subscribers.
	run     context.Context
	fail    context.CancelCauseFunc
	sources map[object.Scope]*source[T]
	shard   object.Shard // what is to be mirrored
	// left is the latest mark of all namespaces that were removed. A namespace that is added is
	// not listed at an earlier version: versions are common to all namespaces of a resource, and
	// the mirror must not go back.
	left    object.Mark
	epoch   object.Epoch     // the latest that a source found to have begun
	initial bool             // the mirror has its initial state
	waiting []*subscriber[T] // subscribed before Run, which starts them
	running sync.WaitGroup   // added to under mu, while running
}

// phase is the stage of an informer's life cycle.
type phase uint8

const (
	fresh phase = iota
	running
	stopped
)

// New creates an informer of the objects that src yields. acc reads their key, UID and version.
func New[T any](src reflector.Source[T], acc object.Accessor[T], opts Options[T]) (*Informer[T], error) {
	if src == nil {
		return nil, errors.New("informer: no source")
	}
	if err := acc.Valid(); err != nil {
		return nil, fmt.Errorf("informer: %w", err)
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	inf := &Informer[T]{
		acc: acc, src: src, opts: opts.withDefaults(),
		synced: make(chan struct{}), ended: make(chan struct{}),
		sources: map[object.Scope]*source[T]{}, shard: opts.Selection.Shard,
	}
	inf.opts.Namespaces = slices.Clone(opts.Namespaces)
	inf.selective.Store(opts.Selection.Labels != "" || opts.Selection.Fields != "" || !opts.Selection.Shard.IsZero())
	if failed := opts.OnIndexError; failed != nil {
		opts.OnIndexError = func(e *store.IndexError) { inf.guard("OnIndexError", func() { failed(e) }) }
	}
	inf.writes, inf.selects = &Writes[T]{inf: inf}, newSelects(opts.Selection, acc.Labels != nil)
	var err error
	inf.store, err = store.New(acc, store.Options[T]{
		Indexes: opts.Indexes, Form: opts.Form, Verbatim: opts.Verbatim,
		OnIndexError: opts.OnIndexError, OnMutation: opts.OnMutation, Copy: opts.Copy,
	})
	if err != nil {
		return nil, fmt.Errorf("informer %s: %w", inf.opts.Name, err)
	}
	if inf.queue, err = delta.NewBuffer[T](delta.BufferOptions{Held: inf.store.Held, Limit: inf.opts.Pending}); err != nil {
		return nil, fmt.Errorf("informer %s: %w", inf.opts.Name, err)
	}
	inf.log = newLog(inf.store, inf.opts.Log)
	if _, err := inf.newReflector(&source[T]{}); err != nil {
		return nil, fmt.Errorf("informer %s: %w", inf.opts.Name, err)
	}
	for _, scope := range scopesOf(opts.Namespaces) {
		inf.sources[scope] = &source[T]{scope: scope, wanted: true}
	}
	return inf, nil
}

// Name returns the informer's name.
func (inf *Informer[T]) Name() string { return inf.opts.Name }

// Informer returns the informer itself. It makes an informer a controller.Cache.
func (inf *Informer[T]) Informer() *Informer[T] { return inf }

// Resource returns Options.Resource.
func (inf *Informer[T]) Resource() object.Resource { return inf.opts.Resource }

// UIDOf returns the UID of the object with the given key.
func (inf *Informer[T]) UIDOf(key object.Key) (uid object.UID, ok bool) {
	return inf.store.UIDOf(key)
}

// Get returns the object with the given key. It takes no lock and allocates nothing, unless the
// object has to be decoded. The object is shared and must not be modified.
func (inf *Informer[T]) Get(key object.Key) (obj T, ok bool) { return inf.store.Get(key) }

// Len returns the number of objects.
func (inf *Informer[T]) Len() int { return inf.store.Len() }

// Snapshot returns the current state, which never changes, in constant time. Release it when
// done, or leave that to the garbage collector.
func (inf *Informer[T]) Snapshot() store.Snapshot[T] { return inf.store.Snapshot() }

// View calls f with the current state, which f must not keep. It is [Informer.Snapshot]
// without the allocation.
func (inf *Informer[T]) View(f func(store.Snapshot[T])) { inf.store.View(f) }

// AddIndex adds an index over existing and future objects. Adding it again does nothing. If
// objects are stored encoded, this decodes each of them once. It waits for a batch that is being
// applied.
func (inf *Informer[T]) AddIndex(x store.AnyIndex[T]) {
	inf.Edit(func(s *store.Store[T]) { s.AddIndex(x) })
}

// Edit calls f with the informer's store. Until f returns, nothing else writes to the store.
// Subscribers are not notified of what f writes, but later changes are reported relative to it,
// and what the server sends later replaces it. Edit waits for a batch that is being applied.
func (inf *Informer[T]) Edit(f func(*store.Store[T])) {
	inf.writer.Lock()
	defer inf.writer.Unlock()
	changes := inf.log.begin()
	defer func() { inf.log.commit(changes, revisionOf(inf.store), false) }()
	f(inf.store)
}

// Writes returns the tracker of this process's writes.
func (inf *Informer[T]) Writes() *Writes[T] { return inf.writes }

// Handler is a set of callbacks; each may be nil. Objects are shared and must not be modified.
type Handler[T any] struct {
	// OnAdd is called for an object that is new to the subscriber. isInitial is true for objects
	// that existed when it subscribed.
	OnAdd func(obj T, isInitial bool)
	// OnUpdate is called when an object changes, and when a resync replays it unchanged.
	OnUpdate func(old, new T)
	// OnResync is called instead of OnUpdate when a resync replays an object. Defaults to
	// OnUpdate.
	OnResync func(obj T)
	// OnDelete is called when an object was deleted. obj is its final state or, if
	// finalStateUnknown is true, the last known state.
	OnDelete func(obj T, finalStateUnknown bool)
	// OnLeave is called when an object is no longer in the mirrored shard, with its last known
	// state. It may exist, and another process has it now: forget it, but do not clean up after
	// it. Only [Informer.SetShard] leads to it.
	OnLeave func(obj T)
}

// Subscribe calls the handler for every existing object and then for every change. The calls come
// from one goroutine, which Run starts and waits for. The error is [ErrStopped].
func (inf *Informer[T]) Subscribe(h Handler[T], opts SubOptions[T]) (*Subscription, error) {
	if onUpdate := h.OnUpdate; onUpdate != nil && h.OnResync == nil {
		h.OnResync = func(obj T) { onUpdate(obj, obj) }
	}
	return inf.subscribe(opts, func(s *subscriber[T]) { s.toHandler(h) })
}

// SubscribeBatch is [Informer.Subscribe] with a function that receives all available changes at
// once, up to about a thousand. f must not keep the slice, but may keep the events in it. The
// context is done when Run is about to end.
func (inf *Informer[T]) SubscribeBatch(f func(context.Context, []Event[T]), opts SubOptions[T]) (*Subscription, error) {
	return inf.subscribe(opts, func(s *subscriber[T]) {
		s.toBatch(func() context.Context { return inf.run }, f)
	})
}

func (inf *Informer[T]) subscribe(opts SubOptions[T], form func(*subscriber[T])) (*Subscription, error) {
	s := inf.newSubscriber(opts, form)
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if err := inf.admit(s); err != nil {
		return nil, err
	}
	if inf.phase == running {
		inf.running.Go(s.serve)
	} else {
		inf.waiting = append(inf.waiting, s)
	}
	return s.sub, nil
}

// newSubscriber makes a subscriber that has no cursor yet.
func (inf *Informer[T]) newSubscriber(opts SubOptions[T], form func(*subscriber[T])) *subscriber[T] {
	opts.Name = cmp.Or(opts.Name, callSite())
	opts.Resync = cmp.Or(opts.Resync, inf.opts.Resync)
	onPanic := inf.opts.OnPanic
	if opts.OnPanic != nil {
		onPanic = opts.OnPanic
	}
	s := &subscriber[T]{
		period:   opts.Resync,
		onSynced: opts.OnSynced,
		reading:  opts.Reading,
		report:   func(e *PanicError) { inf.guard("OnPanic", func() { onPanic(e) }) },
	}
	if filter := opts.Filter; filter != nil {
		s.events = func(obj T) (passes bool) {
			defer func() {
				if p := recover(); p != nil {
					key, _ := inf.acc.Key(obj)
					s.panicked(key, p)
				}
			}()
			return filter(obj)
		}
	}
	form(s)
	sub := newSubscription(opts.Name, &inf.log.seq)
	sub.abandon = func() { inf.abandon(s) }
	s.cursor = &cursor[T]{log: inf.log, sub: sub, every: opts.EveryChange, fromNow: opts.FromNow}
	return s
}

// admit adds a subscriber to the log. inf.mu must be held.
func (inf *Informer[T]) admit(s *subscriber[T]) error {
	if inf.phase == stopped {
		return ErrStopped
	}
	s.begin()
	return nil
}

// abandon ends a removed subscriber that Run has not started.
func (inf *Informer[T]) abandon(s *subscriber[T]) {
	inf.mu.Lock()
	i := slices.Index(inf.waiting, s)
	if i >= 0 {
		inf.waiting = slices.Delete(inf.waiting, i, i+1)
	}
	inf.mu.Unlock()
	if i >= 0 {
		s.end()
	}
}

// Events yields every existing object and then every change, in order, until the context is done
// or the informer stops. Each loop over it is a separate subscriber, which starts with the loop
// and is removed when the loop ends. A slow loop is caught up like any other subscriber.
func (inf *Informer[T]) Events(ctx context.Context, opts SubOptions[T]) iter.Seq[Event[T]] {
	opts.Name = cmp.Or(opts.Name, callSite())
	return func(yield func(Event[T]) bool) {
		s := inf.newSubscriber(opts, func(s *subscriber[T]) { s.toYield(yield) })
		inf.mu.Lock()
		err := inf.admit(s)
		inf.mu.Unlock()
		if err != nil {
			return
		}
		if ctx.Err() != nil {
			s.end()
			return
		}
		defer context.AfterFunc(ctx, s.sub.stop)()
		s.serve()
	}
}

// scopeOf returns the scope that covers a key.
func (inf *Informer[T]) scopeOf(key object.Key) object.Scope {
	if inf.opts.Namespaces == nil {
		return object.Everything
	}
	return object.Scope(key.Namespace)
}

// checkEvery is how often the mutation detector checks all objects.
const checkEvery = 5 * time.Second
