package store

import (
	"slices"

	"github.com/tarnproject/tarn/object"
)

// Stats is what a store holds at one moment, and for which snapshots.
type Stats struct {
	// Objects is the number of objects.
	Objects int
	// Revision counts the transactions.
	Revision uint64
	// Marks are the marks of all scopes.
	Marks []object.Mark
	// Stale counts the events that changed nothing: duplicates, events that came after
	// later ones, deletions of unknown objects.
	Stale uint64
	// Retained is the number of superseded versions, of objects and of index values,
	// that are kept because a snapshot can still see them.
	Retained int
	// Pins are the older revisions that snapshots hold, oldest first.
	Pins []PinStats
	// Indexes has an entry for each index.
	Indexes []IndexStats
}

// PinStats is what is retained for the snapshots of one superseded revision.
type PinStats struct {
	Revision uint64
	// Version is the resource version of that revision, of the first scope.
	Version object.Version
	// Snapshots is the number of snapshots and views of that revision.
	Snapshots int
	// Retained is the number of superseded versions that are dropped when these
	// snapshots are released, unless an older one still sees them.
	Retained int
}

// IndexStats is the state of one index.
type IndexStats struct {
	Name string
	// Values is the number of different values.
	Values int
	// Failures counts the objects on which the index function failed or panicked.
	Failures uint64
	// LastFailure is the newest of them: an [*IndexError].
	LastFailure error
}

// Stats returns what the store holds. It waits for a write in progress, and
// reclaims what garbage-collected snapshots retained.
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

// trySweep reclaims what released and garbage-collected snapshots retained, unless a write is in
// progress, which does that too.
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
