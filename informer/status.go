package informer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// Status is what an informer shows of itself.
type Status struct {
	Name string
	// Running is true from the call of Run until it ends; Stopped is true after that.
	Running, Stopped bool
	// Synced is true when everything that the informer covers has been listed.
	Synced bool
	// Sources tell of each list and watch, in the order of their namespaces.
	Sources []SourceStatus
	// Store is what the mirror holds, and for whose snapshots.
	Store store.Stats
	// Pending is what has been received and is not mirrored yet.
	Pending delta.Stats
	// Logged is the number of changes that are kept for subscribers.
	Logged int
	// Subscribers, in the order in which they came.
	Subscribers []SubscriptionStatus
	// Quarantine is what could not be read, of all sources.
	Quarantine []reflector.Quarantined
	// Refused counts the batches with objects that the store could not hold; LastRefused
	// names those of the newest.
	Refused     uint64
	LastRefused error
	// UnseenWrites is the number of writes of this process that the mirror has not been
	// seen to show.
	UnseenWrites int
}

// Live reports whether everything is listed and changes arrive as they happen. Store then has
// at least the objects of the first lists.
func (s Status) Live() bool {
	for i := range s.Sources {
		if !s.Sources[i].Reflector.Live() {
			return false
		}
	}
	return s.Running && s.Synced
}

// String returns a few lines for people.
func (s Status) String() string {
	var b strings.Builder
	state := "not started"
	switch {
	case s.Stopped:
		state = "stopped"
	case s.Live():
		state = "live"
	case s.Synced:
		state = "stale"
	case s.Running:
		state = "not synced"
	}
	fmt.Fprintf(&b, "%s: %s, %d objects", s.Name, state, s.Store.Objects)
	for i := range s.Sources {
		fmt.Fprintf(&b, "\n  source %s", s.Sources[i])
	}
	for _, sub := range s.Subscribers {
		fmt.Fprintf(&b, "\n  subscriber %s: lag %d", sub.Name, sub.Lag)
		if sub.Lag > 0 {
			fmt.Fprintf(&b, " (%v)", sub.LagTime)
		}
		if sub.Panics > 0 {
			fmt.Fprintf(&b, ", %d panics", sub.Panics)
		}
	}
	return b.String()
}

// Sources returns the state of each list and watch, in the order of their namespaces. It waits for
// no batch.
func (inf *Informer[T]) Sources() []SourceStatus {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.sourceStatuses()
}

// sourceStatuses returns the status of each source. The lock must be held.
func (inf *Informer[T]) sourceStatuses() []SourceStatus {
	sources := make([]SourceStatus, 0, len(inf.sources))
	for _, src := range inf.sources {
		sources = append(sources, inf.sourceStatus(src))
	}
	slices.SortFunc(sources, byScope)
	return sources
}

// Status returns the present figures. It waits for a batch that is being applied.
func (inf *Informer[T]) Status() Status {
	st := Status{Name: inf.opts.Name}
	inf.mu.Lock()
	st.Sources = inf.sourceStatuses()
	st.Running, st.Stopped = inf.phase == running, inf.phase == stopped
	st.Synced = inf.phase != fresh && len(inf.unlisted()) == 0
	for _, src := range inf.sources {
		if src.refl != nil {
			st.Quarantine = append(st.Quarantine, src.refl.Quarantine()...)
		}
	}
	inf.mu.Unlock()
	slices.SortFunc(st.Quarantine, func(a, b reflector.Quarantined) int { return a.Key.Compare(b.Key) })

	// After Synced, so that a live status has what was listed.
	st.Store, st.Pending, st.Refused = inf.store.Stats(), inf.fifo.Stats(), inf.refused.Load()
	if err := inf.refusal.Load(); err != nil {
		st.LastRefused = *err
	}
	inf.writes.mu.Lock()
	st.UnseenWrites = len(inf.writes.notes)
	inf.writes.mu.Unlock()

	inf.log.mu.Lock()
	st.Logged = inf.log.apart + inf.log.size
	for _, c := range inf.log.cursors {
		st.Subscribers = append(st.Subscribers, c.sub.Status())
	}
	inf.log.mu.Unlock()
	return st
}
