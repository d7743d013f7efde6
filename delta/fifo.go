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
//   - A batch holds everything up to its marks. After them it may hold deletions of one
//     version, of which more may come.
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
	batch Batch[T] // the one in flight; belongs to the goroutine that took it

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

// Add tells that a watch saw the object come to be. The error is [ErrClosed], or
// says that the object has no key.
func (f *FIFO[T]) Add(obj T) error { return f.put(Added, obj) }

// Update tells that a watch saw a new version of the object. Its errors are those
// of Add.
func (f *FIFO[T]) Update(obj T) error { return f.put(Updated, obj) }

// put is the hot path: no defer, and no user code under the lock.
func (f *FIFO[T]) put(t Type, obj T) error {
	key, version, scope, err := f.identify(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if err := f.admit(); err != nil {
		f.mu.Unlock()
		return err
	}
	f.populate()
	f.marks.event(scope, version, false)
	d := f.pending.extend()
	d.Type, d.Key, d.Object = t, key, obj
	f.pending.stamp(f.born)
	f.consumers.wake()
	f.mu.Unlock()
	return nil
}

// Delete tells that a watch saw the object go; obj is its last state. It is dropped
// when the key is neither known nor pending, but its version counts all the same: as seen,
// and as complete when the next version or a bookmark comes, because deletions may share a
// version ([object.Reach]). Its errors are those of Add.
func (f *FIFO[T]) Delete(obj T) error {
	key, version, scope, err := f.identify(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	f.populate()
	f.marks.event(scope, version, true)
	f.delete(&Delta[T]{Type: Deleted, Key: key, Object: obj})
	return nil
}

// DeleteUnknown tells that an object is gone whose deletion nobody saw, so that
// the tombstone's object, which may be the zero value, is only the last state known.
// It moves no mark: nobody knows the deletion's version. Otherwise it is Delete.
func (f *FIFO[T]) DeleteUnknown(t object.Tombstone[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	f.populate()
	f.delete(&Delta[T]{Type: Deleted, Unknown: true, Key: t.Key, Object: t.Object})
	return nil
}

func (f *FIFO[T]) delete(d *Delta[T]) {
	pending := f.isPending(d.Key)
	if !pending {
		_, pending = f.exists(d.Key, f.flight)
	}
	if pending {
		f.enqueue(d, false)
	}
	f.consumers.wake() // if not for the delta, then for the mark
}

// Resync tells the state of every known key that has nothing pending once more,
// as Sync deltas. It does nothing without [Options.Known]. Its error is [ErrClosed].
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
	if obj, ok := f.exists(key, f.flight); ok {
		f.enqueue(&Delta[T]{Type: Sync, Key: key, Object: obj}, false)
	}
}

// Bookmark tells that everything up to the mark has been told. It makes a batch
// even if there are no deltas; Pop does not see it. A mark before what its scope has
// seen, and one without a version, changes nothing. Its error is [ErrClosed].
func (f *FIFO[T]) Bookmark(mark object.Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.marks.bookmark(mark)
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
		if d.Key != deltas[0].Key || d.Type < Added || d.Type > Sync || d.List != nil {
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

// identify reads all there is to know of an object, before the lock is taken. An accessor
// that panics on one object must not end the producer: it is an error.
func (f *FIFO[T]) identify(obj T) (key object.Key, version object.Version, scope object.Scope, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("delta: the accessor panicked on a value of type %T: %v", obj, p)
		}
	}()
	if key, err = f.acc.Key(obj); err != nil {
		return key, "", "", fmt.Errorf("delta: cannot queue an object: %w", err)
	}
	scope = object.Everything
	if f.opts.ScopeOf != nil {
		scope = f.opts.ScopeOf(key)
	}
	return key, f.acc.VersionOf(obj), scope, nil
}

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

func (f *FIFO[T]) enqueue(d *Delta[T], initial bool) {
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
