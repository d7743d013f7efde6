package delta

import (
	"time"

	"github.com/tarnproject/tarn/object"
)

// Get returns a copy of the deltas that are pending for a key, as Pop would hand
// them over. While a Replace is pending that no Pop has taken apart, Get costs as
// much as taking it apart, and so do Keys, List and Len.
func (f *FIFO[T]) Get(key object.Key) (deltas Deltas[T], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := f.exploded()
	view.chain(key, func(i int) { deltas = append(deltas, view.deltas[i]) })
	return deltas, len(deltas) > 0
}

// Keys returns the keys that have something pending, in the order in which Pop
// would hand them over.
func (f *FIFO[T]) Keys() []object.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := f.exploded()
	keys := make([]object.Key, 0, len(view.keys))
	view.firsts(func(first, _ int) { keys = append(keys, view.deltas[first].Key) })
	return keys
}

// List returns the newest object of each pending key, in the order of Keys; of a
// key whose newest delta is Deleted, the deleted object.
func (f *FIFO[T]) List() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := f.exploded()
	objs := make([]T, 0, len(view.keys))
	view.firsts(func(_, last int) { objs = append(objs, view.deltas[last].New()) })
	return objs
}

// Len returns the number of keys that have something pending.
func (f *FIFO[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := f.exploded()
	view.index()
	return len(view.keys)
}

// Held reports whether the consumer holds the object with this key, UID and version, or will
// once everything pending is processed, so that a list need not decode it. It is false
// without a version, because changes would go unnoticed.
func (f *FIFO[T]) Held(key object.Key, uid object.UID, version object.Version) bool {
	if !version.Known() {
		return false
	}
	newest, decided := f.newest(key)
	switch {
	case !decided:
		return f.opts.Known != nil && f.opts.Known.Held(key, uid, version)
	case newest.item != nil:
		return newest.item.UID == uid && newest.item.Version == version
	case newest.delta != nil:
		return newest.delta.UID == uid && newest.delta.Version == version
	}
	return false
}

// newest returns a copy of the newest delta or item of a key. decided is false if there is
// none and Known decides. If the object does not exist, or its state is unclear, the result
// is empty and decided is true.
func (f *FIFO[T]) newest(key object.Key) (newest fate[T], decided bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range [...]*log[T]{f.pending, f.flight} {
		if l == nil {
			continue
		}
		ft := l.fate(key)
		switch {
		case ft.deleted() || ft.unclear:
			return fate[T]{}, true
		case ft.delta != nil:
			d := *ft.delta
			return fate[T]{delta: &d}, true
		case ft.item != nil:
			item := *ft.item
			return fate[T]{item: &item}, true
		}
	}
	return fate[T]{}, false
}

// Stats is how much is queued at one moment.
type Stats struct {
	// Deltas is the number of deltas pending. A Replace counts as one until a Pop
	// takes it apart.
	Deltas int
	// InFlight is the number of deltas being processed.
	InFlight int
	// Blocked is the number of producers that wait for room.
	Blocked int
	// Oldest is how long the oldest pending delta has waited. It is exact where
	// batches are taken; where keys are popped from a queue that never empties, it
	// may be too long by the time the queue took to turn over once.
	Oldest time.Duration
}

// Stats returns the current figures. It is cheap.
func (f *FIFO[T]) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Stats{Deltas: f.pending.live, Blocked: len(f.producers.waiting)}
	if f.flight != nil {
		s.InFlight = f.flight.live
	}
	if s.Deltas > 0 {
		s.Oldest = time.Since(f.born) - f.pending.age.oldest
	}
	return s
}
