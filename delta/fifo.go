package delta

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// FIFO is the queue of pending deltas. Create one with [New].
//
// Guarantees:
//
//   - The deltas of one key are handed over in order of arrival, and keys in the order in
//     which they first became pending. Only two consecutive Deleted are merged, unless they are
//     certainly of different states, and none with Options.Verbatim.
//   - Whether a delta is stale is not decided here but by the consumer, such as a store.
//   - One process function runs at a time, however many goroutines call Pop and PopBatch,
//     so that the order holds until processing ends.
//   - Deltas in processing count as known until they are processed or put back, so a list
//     that arrives meanwhile loses no deletion.
//   - A batch has everything that arrived before its marks and nothing after.
//
// All methods are safe for concurrent use. A process function runs without the lock and may
// call every method except Pop and PopBatch, which would deadlock; with [Options.Limit] it
// must not call producers either. Its argument is the FIFO's own memory: the function may
// read it until it returns, and must not change or keep it. It may keep the objects.
//
// Memory is proportional to what is pending. The memory of a burst is kept for the next one
// and freed after a few rounds that did not need it.
//
// A Quarantined change is for [FIFO.PopBatch]; Pop leaves it out, because it has no object.
//
// A Replace stays one change until a Pop needs it key by key. [FIFO.PopBatch] returns the
// whole list, and the consumer determines the deleted objects. Rejected: expanding it at
// once, as client-go does. That would visit every known key twice, here and in the store,
// which compares them anyway.
type FIFO[T any] struct {
	acc  object.Accessor[T]
	opts Options[T]
	born time.Time

	// mu guards everything below. It is never held while a process function or an
	// accessor runs; it is held while Known is read.
	mu      sync.Mutex
	pending *log[T]
	// flight is what is being processed: the deltas of a key, or a batch. Only the
	// goroutine that took it may empty it; while it is set, no other may take.
	flight *log[T]
	// before is the processed flight during which pending lists arrived. It is kept until
	// they are expanded, because the deletions that they imply depend on it.
	before *log[T]
	spare  *log[T] // empty, for the next flight

	marks marks
	batch object.Batch[T] // the one in flight; belongs to the goroutine that took it

	consumers line // wait for something to take, or for their turn
	producers line // wait for room

	sync   syncState
	synced chan struct{} // closed when sync becomes synced
	closed bool
}

// syncState is the progress of the initial list.
type syncState uint8

const (
	awaiting syncState = iota // neither a Replace nor anything else yet
	syncing                   // deltas of the first Replace are pending or in flight
	synced                    // they are processed, or there were none to wait for
)

// New returns an empty FIFO for objects that the accessor can identify.
func New[T any](acc object.Accessor[T], opts Options[T]) (*FIFO[T], error) {
	if err := acc.Valid(); err != nil {
		return nil, fmt.Errorf("delta: new FIFO: %w", err)
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &FIFO[T]{
		acc:     acc,
		opts:    opts,
		born:    time.Now(),
		pending: new(log[T]),
		synced:  make(chan struct{}),
	}, nil
}

// Add queues an object that a watch reported as created, and moves the mark to its
// version. The error is [ErrClosed] or that of the accessor.
func (f *FIFO[T]) Add(obj T) error { return f.put(object.Added, obj) }

// Update queues a new version of an object, like Add.
func (f *FIFO[T]) Update(obj T) error { return f.put(object.Updated, obj) }

// Delete queues the deletion of an object; obj is its last state. It is dropped when the
// key is neither known nor pending (Q05). It does not advance the mark, because other
// deletions may share its version. Its errors are those of Add.
func (f *FIFO[T]) Delete(obj T) error { return f.put(object.Deleted, obj) }

// DeleteUnknown queues the deletion of an object whose deletion was not observed: the
// tombstone's object, which may be the zero value, is the last known state. Otherwise it is
// like Delete.
func (f *FIFO[T]) DeleteUnknown(t object.Tombstone[T]) error {
	return f.one(&object.Change[T]{Kind: object.Deleted, Unknown: true, Key: t.Key, Value: object.Decoded(t.Object)})
}

func (f *FIFO[T]) put(kind object.Kind, obj T) error {
	item, err := f.item(obj)
	if err != nil {
		return fmt.Errorf("delta: cannot queue an object: %w", err)
	}
	change := object.ChangeOf(kind, &item)
	return f.one(&change)
}

// item reads the identity of an object. A panic of the accessor becomes an error, so that one
// object does not end the producer.
func (f *FIFO[T]) item(obj T) (item object.Item[T], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the accessor panicked on a value of type %T: %v", obj, p)
		}
	}()
	return object.ItemOf(f.acc, obj)
}

func (f *FIFO[T]) one(change *object.Change[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	if change.Kind != object.Deleted {
		f.marks.move(object.Mark{Epoch: f.marks.of(object.Everything).Epoch, Version: change.Version})
	}
	f.apply(change)
	f.consumers.wake()
	return nil
}

// Apply implements [object.Sink]: it queues the changes of a batch and advances the marks
// atomically. A change with a List is a [FIFO.Replace]; the FIFO owns the list from then on.
// Apply blocks while the FIFO is full. The error is [ErrClosed].
func (f *FIFO[T]) Apply(b *object.Batch[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	for i := range b.Changes {
		f.apply(&b.Changes[i])
	}
	for _, m := range b.Marks {
		f.marks.move(m)
	}
	f.consumers.wake()
	return nil
}

func (f *FIFO[T]) apply(change *object.Change[T]) {
	switch {
	case change.List != nil:
		f.replace(change.List)
	case change.Kind == object.Deleted:
		f.populate()
		f.delete(change)
	default:
		f.populate()
		f.enqueue(change, false)
	}
}

// delete queues a deletion unless its key does not exist (Q05). With Options.Verbatim it queues
// every one.
func (f *FIFO[T]) delete(d *object.Change[T]) {
	if !f.opts.Verbatim && !f.isPending(d.Key) {
		_, exists := f.exists(d.Key, f.flight)
		if !exists && f.flight != nil {
			// The consumer may find that a deletion in flight is stale, and this one is not.
			ft := f.flight.fate(d.Key)
			exists = ft.absent == nil && ft.delta != nil && differ(ft.delta, d)
		}
		if !exists {
			return
		}
	}
	f.enqueue(d, false)
}

// differ reports whether two changes are of different states: of those with a UID, each version is one. A
// deletion that was not observed may be of any.
func differ[T any](a, b *object.Change[T]) bool {
	if a.Unknown || b.Unknown || a.UID == "" && b.UID == "" {
		return false
	}
	return a.UID != b.UID || a.Version != b.Version
}

// Resync queues the state of every known key that has nothing pending, as Synced
// deltas. It does nothing without [Options.Known]. Its error is [ErrClosed].
func (f *FIFO[T]) Resync() error {
	if f.opts.Known == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	for key := range f.opts.Known.Keys() {
		f.resync(key)
	}
	if f.flight != nil {
		f.flight.names(f.resync)
	}
	f.consumers.wake()
	return nil
}

func (f *FIFO[T]) resync(key object.Key) {
	if f.isPending(key) {
		return
	}
	if state, ok := f.exists(key, f.flight); ok {
		state.Kind, state.Unknown = object.Synced, false
		f.enqueue(&state, false)
	}
}

// Bookmark reports that everything up to the mark has been queued. It makes a batch even
// without deltas; Pop ignores it. A mark at or before the one its
// scope has, and one without a version, changes nothing. Its error is [ErrClosed].
func (f *FIFO[T]) Bookmark(mark object.Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.marks.move(mark)
	f.consumers.wake()
	return nil
}

var errForeign = errors.New("delta: cannot put back: want deltas of one key, each with a type and none with a list")

// AddIfAbsent puts deltas from Pop back at the end of the queue, unless newer deltas of their
// key are pending. A process function should return [Requeue] instead. AddIfAbsent never
// blocks and also works after Close. The error means that the deltas are not of one key.
func (f *FIFO[T]) AddIfAbsent(deltas Deltas[T]) error {
	for i := range deltas {
		d := &deltas[i]
		if d.Key != deltas[0].Key || d.Kind == 0 || d.Kind > object.Synced || d.List != nil {
			return errForeign
		}
	}
	if len(deltas) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.populate()
	if f.isPending(deltas[0].Key) {
		return nil
	}
	for i := range deltas {
		f.enqueue(&deltas[i], false)
	}
	f.consumers.wake()
	return nil
}

// Close closes the FIFO for producers, which get [ErrClosed]. Pending deltas can still be
// taken; after that Pop and PopBatch return ErrClosed. Further calls do nothing.
func (f *FIFO[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.consumers.wake()
	f.producers.wake()
}

// Closed reports whether Close has been called.
func (f *FIFO[T]) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// HasSynced reports whether the first Replace has been processed completely. It is also true
// if that Replace had no effect, or if Add, Update, Delete or AddIfAbsent came before any
// Replace.
func (f *FIFO[T]) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync == synced
}

// Synced returns a channel that is closed when HasSynced becomes true.
func (f *FIFO[T]) Synced() <-chan struct{} { return f.synced }

// admit blocks until there is room.
func (f *FIFO[T]) admit() error {
	for !f.closed && f.opts.Limit > 0 && f.pending.live >= f.opts.Limit {
		f.producers.wait(&f.mu, nil)
	}
	if f.closed {
		return ErrClosed
	}
	return nil
}

func (f *FIFO[T]) enqueue(d *object.Change[T], initial bool) {
	f.add(f.pending, d, initial)
	f.pending.stamp(f.born)
}

// add appends a delta to a log or, for a Deleted right after a Deleted of the same key, keeps the
// one with more information.
func (f *FIFO[T]) add(l *log[T], d *object.Change[T], initial bool) {
	if d.Kind == object.Deleted && !f.opts.Verbatim && l.merge(d) {
		return
	}
	l.add(d, initial)
}

// populate records a change. Before the first Replace it means that there is no initial list
// to wait for.
func (f *FIFO[T]) populate() {
	if f.sync == awaiting {
		f.sync = syncing
		f.checkSynced()
	}
}

// checkSynced must be called whenever syncing may have ended.
func (f *FIFO[T]) checkSynced() {
	if f.sync == syncing && f.pending.initial == 0 && (f.flight == nil || f.flight.initial == 0) {
		f.sync = synced
		close(f.synced)
	}
}
