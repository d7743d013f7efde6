package store

import (
	"slices"
	"sync"
	"weak"

	"github.com/tarnproject/tarn/object"
)

// Stats is what a store holds at one moment, and for whom.
type Stats struct {
	// Objects is the number of objects.
	Objects int
	// Revision counts the transactions.
	Revision uint64
	// Marks tell where each scope stands.
	Marks []object.Mark
	// Stale counts the events that changed nothing: duplicates, events that came after
	// later ones, deletions of what was not there.
	Stale uint64
	// Retained is the number of superseded versions, of objects and of index values,
	// that are kept because a snapshot can still see them.
	Retained int
	// Pins tell which older revisions are held, oldest first.
	Pins []PinStats
	// Indexes tell of each index.
	Indexes []IndexStats
}

// PinStats tells what is kept for the snapshots of one revision that is no longer the
// current one.
type PinStats struct {
	Revision uint64
	// Version is the resource version of that revision, of the first scope.
	Version object.Version
	// Snapshots is the number of snapshots and pins of that revision.
	Snapshots int
	// Owners are the names given to [Store.SnapshotFor].
	Owners []string
	// Retained is the number of superseded versions that go when these snapshots go,
	// unless an older one still sees them.
	Retained int
}

// IndexStats tells how an index does.
type IndexStats struct {
	Name string
	// Values is the number of different values.
	Values int
	// Failures counts the objects on which the index function failed or panicked.
	Failures uint64
	// LastFailure is the newest of them: an [*IndexError].
	LastFailure error
	// Conflicts counts how often a unique index got a second object for a value.
	Conflicts uint64
}

// Stats returns what the store holds. It waits for a write that is going on, and
// reclaims what forgotten snapshots have left.
func (s *Store[T]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	now := s.history.Current()
	st := Stats{
		Objects:  now.Payload.objects,
		Revision: now.Revision,
		Stale:    s.stale,
		Retained: s.history.Retained(),
	}
	st.Marks = slices.AppendSeq(st.Marks, s.marksAt(now))
	s.history.Older(func(old *state, retired int) {
		pin := PinStats{
			Revision:  old.Revision,
			Snapshots: old.Pins(),
			Owners:    s.leases.owners(old.Revision),
			Retained:  retired,
		}
		if m := old.Payload.mark; m != nil {
			pin.Version = m.Version
		}
		st.Pins = append(st.Pins, pin)
	})
	for _, x := range *s.indexes.Load() {
		st.Indexes = append(st.Indexes, x.stats())
	}
	return st
}

// Sweep reclaims what released and forgotten snapshots have left, unless a write is going
// on, which will do it. Every write does it too: Sweep is for a store that is idle.
func (s *Store[T]) Sweep() { s.trySweep() }

func (s *Store[T]) trySweep() {
	if s.mu.TryLock() {
		s.sweep()
		s.mu.Unlock()
	}
}

func (s *Store[T]) sweep() {
	s.history.Sweep()
	s.settle()
}

// registry knows the leases that have an owner, without keeping them alive.
type registry struct {
	mu     sync.Mutex // guards leases
	leases []weak.Pointer[lease]
}

func (r *registry) add(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	r.leases = append(r.leases, weak.Make(l))
}

func (r *registry) prune() {
	r.leases = slices.DeleteFunc(r.leases, func(w weak.Pointer[lease]) bool {
		l := w.Value()
		return l == nil || l.released.Load()
	})
}

// owners returns the names of those who hold a revision.
func (r *registry) owners(revision uint64) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	var names []string
	for _, w := range r.leases {
		if l := w.Value(); l != nil && l.revision == revision {
			names = append(names, l.owner)
		}
	}
	slices.Sort(names)
	return names
}
