package delta

import (
	"fmt"
	"sync"

	"github.com/tarnproject/tarn/object"
)

// FIFO is the queue of pending deltas by key: client-go's DeltaFIFO, with types. Create one with [New].
//
// Guarantees:
//
//   - The deltas of one key are handed over in order of arrival, and keys in the order in
//     which they first became pending. Only two consecutive Deleted are merged, unless they are
//     certainly of different states.
//   - Whether a delta is stale is not decided here but by the consumer, such as a store.
//   - One process function runs at a time, however many goroutines call Pop, so that the order holds
//     until processing ends.
//   - Deltas in processing count as known until they are processed or put back, so a list
//     that arrives meanwhile loses no deletion.
//
// All methods are safe for concurrent use. A process function runs without the lock and may
// call every method except Pop, which would deadlock. Its argument is the FIFO's own memory: the
// function may read it until it returns, and must not change or keep it. It may keep the objects.
//
// Memory is proportional to what is pending. That of a burst is freed when nothing is pending.
type FIFO[T any] struct {
	acc  object.Accessor[T]
	opts Options[T]

	// mu guards everything below. It is never held while a process function runs; it is held while Known
	// is read, and while the accessor reads what Known returned.
	mu      sync.Mutex
	pending map[object.Key]*entry[T]
	// first and last are the ends of the chain of pending entries, in the order in which their keys
	// became pending.
	first, last *entry[T]
	flight      *entry[T] // what is being processed; nil for nothing
	free        *entry[T] // a chain of empty entries
	most        int       // the largest len(pending) since it was made

	populated bool          // something arrived, so the initial list is known
	initial   int           // entries, pending or in flight, with deltas of the first Replace
	synced    chan struct{} // closed when these are processed
	closed    bool
	ready     gate // consumers wait for something to take, or for their turn
}

// entry is the pending deltas of one key, of which there is at least one.
type entry[T any] struct {
	deltas  Deltas[T]
	initial bool // it has a delta of the first Replace
	next    *entry[T]
}

func (e *entry[T]) key() object.Key           { return e.deltas[0].Key }
func (e *entry[T]) newest() *object.Change[T] { return &e.deltas[len(e.deltas)-1] }

// New returns an empty FIFO for objects that the accessor can identify.
func New[T any](acc object.Accessor[T], opts Options[T]) (*FIFO[T], error) {
	if err := acc.Valid(); err != nil {
		return nil, fmt.Errorf("delta: new FIFO: %w", err)
	}
	return &FIFO[T]{
		acc:     acc,
		opts:    opts,
		pending: make(map[object.Key]*entry[T]),
		synced:  make(chan struct{}),
		ready:   newGate(),
	}, nil
}

// put appends a delta to those of its key or, for a Deleted right after a Deleted, keeps the one with
// more information. initial marks a delta of the first Replace.
func (f *FIFO[T]) put(d *object.Change[T], initial bool) {
	e := f.pending[d.Key]
	if e == nil {
		if e = f.free; e != nil {
			f.free, e.next = e.next, nil
		} else {
			e = new(entry[T])
		}
		f.pending[d.Key] = e
		f.most = max(f.most, len(f.pending))
		if f.first == nil {
			f.first = e
		} else {
			f.last.next = e
		}
		f.last = e
	}
	if n := len(e.deltas); n > 0 && d.Kind == object.Deleted && e.deltas[n-1].Kind == object.Deleted && !differ(&e.deltas[n-1], d) {
		if e.deltas[n-1].Unknown {
			e.deltas[n-1] = *d
		}
	} else {
		e.deltas = append(e.deltas, *d)
	}
	if initial && !e.initial {
		e.initial = true
		f.initial++
	}
	f.ready.open()
}

// differ reports whether two changes are of different states: of those with a UID, each version is one. A
// deletion that was not observed may be of any.
func differ[T any](a, b *object.Change[T]) bool {
	if a.Unknown || b.Unknown || a.UID == "" && b.UID == "" {
		return false
	}
	return a.UID != b.UID || a.Version != b.Version
}

// keepEntries is how many keys may have been pending for the FIFO to keep its memory.
const keepEntries = 4096

// shrink frees the memory of a burst when nothing is pending.
func (f *FIFO[T]) shrink() {
	if len(f.pending) == 0 && f.most > keepEntries {
		f.pending, f.free, f.most = make(map[object.Key]*entry[T]), nil, 0
	}
}

// newest returns the newest delta of a key that is pending or in flight; nil if there is none.
func (f *FIFO[T]) newest(key object.Key) *object.Change[T] {
	if e := f.pending[key]; e != nil {
		return e.newest()
	}
	if f.flight != nil && f.flight.key() == key {
		return f.flight.newest()
	}
	return nil
}

// exists reports whether an object exists after everything that is pending and in flight, and returns
// its newest state.
func (f *FIFO[T]) exists(key object.Key) (state object.Value[T], ok bool) {
	if d := f.newest(key); d != nil {
		return d.Value, d.Kind != object.Deleted
	}
	return f.known(key)
}

func (f *FIFO[T]) known(key object.Key) (state object.Value[T], ok bool) {
	if f.opts.Known == nil {
		return state, false
	}
	obj, ok := f.opts.Known.Get(key)
	return object.Decoded(obj), ok
}

// held returns the newest state of a key for an item of a list that was not decoded because it is held:
// the object may have been deleted since, and the list may say that it has not.
func (f *FIFO[T]) held(key object.Key) (state object.Value[T], ok bool) {
	entries := [...]*entry[T]{f.pending[key], f.flight}
	for _, e := range entries {
		if e == nil || e.key() != key {
			continue
		}
		for i := len(e.deltas) - 1; i >= 0; i-- {
			if e.deltas[i].Kind != object.Deleted {
				return e.deltas[i].Value, true
			}
		}
	}
	return f.known(key)
}

// Get returns a copy of the deltas that are pending for a key.
func (f *FIFO[T]) Get(key object.Key) (deltas Deltas[T], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.pending[key]; e != nil {
		return append(deltas, e.deltas...), true
	}
	return nil, false
}

// Keys returns the keys that have something pending, in the order in which Pop
// would hand them over.
func (f *FIFO[T]) Keys() []object.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := make([]object.Key, 0, len(f.pending))
	for e := f.first; e != nil; e = e.next {
		keys = append(keys, e.key())
	}
	return keys
}

// List returns the newest object of each pending key, in the order of Keys; of a
// key whose newest delta is Deleted, the deleted object.
func (f *FIFO[T]) List() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	objs := make([]T, 0, len(f.pending))
	for e := f.first; e != nil; e = e.next {
		objs = append(objs, e.newest().New())
	}
	return objs
}

// Len returns the number of keys that have something pending.
func (f *FIFO[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pending)
}

// Held implements [object.Sink]: it reports whether the consumer holds the object with this key, UID and
// version, or will once everything pending is processed, so that a list need not decode it. It is false
// without a version, because changes would go unnoticed.
func (f *FIFO[T]) Held(key object.Key, uid object.UID, version object.Version) bool {
	if !version.Known() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.newest(key); d != nil {
		return d.Kind != object.Deleted && d.UID == uid && d.Version == version
	}
	return f.opts.Known != nil && f.opts.Known.Held(key, uid, version)
}

// HasSynced reports whether the first Replace has been processed completely. It is also true
// if that Replace had no effect, or if Add, Update, Delete or AddIfAbsent came before any
// Replace.
func (f *FIFO[T]) HasSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// Synced returns a channel that is closed when HasSynced becomes true.
func (f *FIFO[T]) Synced() <-chan struct{} { return f.synced }

// checkSynced must be called whenever syncing may have ended.
func (f *FIFO[T]) checkSynced() {
	if f.populated && f.initial == 0 && !f.HasSynced() {
		close(f.synced)
	}
}

// Close closes the FIFO for producers, which get [ErrClosed]. Pending deltas can still be
// taken; after that Pop returns ErrClosed. Further calls do nothing.
func (f *FIFO[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.ready.open()
}

// Closed reports whether Close has been called.
func (f *FIFO[T]) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
