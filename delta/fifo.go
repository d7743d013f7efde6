package delta

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// FIFO is the queue of pending deltas. Make one with [New].
//
// What it guarantees:
//
//   - The deltas of one key are handed over in the order in which they came, and
//     keys in the order in which they first became pending. Nothing is folded but
//     two Deleted in a row.
//   - One process function runs at a time, whatever number of goroutines call Pop
//     and PopBatch, so that order holds to the end of processing.
//   - What is being processed counts as known, its newest delta deciding, until it
//     has been processed or put back: a list that comes meanwhile loses no deletion.
//   - A batch holds everything that came before its marks and nothing after.
//
// All methods may be called from any goroutine. A process function runs without the
// lock and may call every method but Pop and PopBatch, which would wait for
// themselves; with [Options.Limit] it must not call producers either. What it is
// handed is the FIFO's own memory: it may be read until the function returns, and
// neither changed nor kept. The objects may be kept.
//
// Memory follows what is pending. What a burst allocated is kept for the next one
// and given back after a few rounds that did not need it.
//
// A Replace stays one set until a Pop needs it key by key, to take a key or to put one
// back; [FIFO.PopBatch] hands the set over, and the consumer works out what vanished.
// Rejected: taking it apart at once, as client-go does. It would visit every key that
// is known twice, here and in the store, which compares anyway.
type FIFO[T any] struct {
	acc  object.Accessor[T]
	opts Options[T]
	born time.Time

	// mu guards everything below. It is never held while a process function or an
	// accessor runs; it is held while Known is read.
	mu      sync.Mutex
	pending *log[T]
	// flight is what is being processed: the deltas of a key, or a batch. Only the
	// goroutine that took it may empty it; while it is set, nobody else may take.
	flight *log[T]
	// before is the flight that pending lists came during and that has been processed
	// since, for as long as they are whole: what they lack depends on it.
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

// syncState is how far the initial list has come.
type syncState uint8

const (
	awaiting syncState = iota // neither a Replace nor anything else yet
	syncing                   // deltas of the first Replace are pending or in flight
	synced                    // they are processed, or there were none to wait for
)

// New makes an empty FIFO of objects that the accessor can name.
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
// version. The error is [ErrClosed], or says that the object has no key.
func (f *FIFO[T]) Add(obj T) error { return f.put(object.Added, obj) }

// Update queues a new version of an object. Otherwise it is Add.
func (f *FIFO[T]) Update(obj T) error { return f.put(object.Updated, obj) }

// Delete queues the deletion of an object; obj is its last state. It is dropped when the
// key is neither known nor pending (Q05). It moves no mark: other deletions may share
// its version. Its errors are those of Add.
func (f *FIFO[T]) Delete(obj T) error { return f.put(object.Deleted, obj) }

// DeleteUnknown queues the deletion of an object whose deletion was not observed: the
// tombstone's object, which may be the zero value, is only the last state known.
// Otherwise it is Delete.
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

// item reads the identity of an object. An accessor that panics on one object must not end
// the producer: that is an error.
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

// Apply implements [object.Sink]: it queues the changes of a batch and moves the marks, all
// at once. A change with a List is a [FIFO.Replace], and its list belongs to the FIFO from
// then on. Apply waits while there is no room. The error is [ErrClosed].
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

// delete queues a deletion, unless it is of another object than the newest one known: one
// that does not exist (Q05), one of the same UID at an earlier version, or one of another UID
// that was deleted before the one known was written (W14). A deletion without a UID or an
// order is of what is known.
func (f *FIFO[T]) delete(d *object.Change[T]) {
	switch ft := f.pending.fate(d.Key); {
	case ft.deleted():
	case ft.delta != nil && before(d, ft.delta.UID, ft.delta.Version),
		ft.item != nil && before(d, ft.item.UID, ft.item.Version):
		return
	}
	if !f.isPending(d.Key) {
		if state, ok := f.exists(d.Key, f.flight); !ok || before(d, state.UID, state.Version) {
			return
		}
	}
	f.enqueue(d, false)
}

// before reports whether a deletion is certainly of an earlier state than one of this UID and
// version.
func before[T any](d *object.Change[T], uid object.UID, version object.Version) bool {
	if d.UID == "" || uid == "" {
		return false
	}
	if d.UID == uid {
		return version.After(d.Version)
	}
	return d.Version.NotAfter(version)
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

// Bookmark tells that everything up to the mark has been told. It makes a batch
// even if there are no deltas; Pop does not see it. A mark at or before the one its
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

// AddIfAbsent puts deltas that Pop handed out back, at the end, unless something is
// pending for their key by now, which supersedes them. A process function that wants
// this had better return [Requeue]. Being the consumer's, the call waits for no room
// and works after Close too. The error says that the deltas are not of one key.
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

// Close ends production: producers get [ErrClosed]. What is pending may still be
// taken; after that Pop and PopBatch return ErrClosed. Closing twice is harmless.
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

// HasSynced reports whether the first Replace has been taken and processed whole.
// It is true as well when that Replace told nothing, or when Add, Update, Delete or
// AddIfAbsent came before any Replace.
func (f *FIFO[T]) HasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync == synced
}

// Synced returns a channel that is closed when HasSynced becomes true.
func (f *FIFO[T]) Synced() <-chan struct{} { return f.synced }

// admit waits until there is room.
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
	f.pending.add(d, initial)
	f.pending.stamp(f.born)
}

// populate notes that something came; before the first Replace that means that
// there is no initial list to wait for.
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
