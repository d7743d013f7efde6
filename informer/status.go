package informer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// Status is the state of an informer at one time.
type Status struct {
	Name string
	// Running is true while Run is in progress; Stopped is true after that.
	Running, Stopped bool
	// Synced is true when every source has been listed.
	Synced bool
	// Sources is the state of each list and watch, sorted by namespace.
	Sources []SourceStatus
	// Store is the size of the store, and what it retains for snapshots.
	Store store.Stats
	// Pending is what has been received and not applied yet.
	Pending delta.Stats
	// Logged is the number of changes that are kept for subscribers.
	Logged int
	// Subscribers is the state of each subscriber, in the order of subscription.
	Subscribers []SubscriptionStatus
	// Quarantine lists the objects of all sources that could not be decoded or transformed.
	Quarantine []reflector.Quarantined
	// Refused counts the batches with objects that could not be stored; LastRefused names those
	// of the latest such batch.
	Refused     uint64
	LastRefused error
	// Audit is the result of the latest audit; nil for none. It is shared: do not change it.
	Audit *Audit
	// PendingWrites is the number of writes of this process that are still tracked, because the
	// mirror has not been found to have them.
	PendingWrites int
}

// Live reports whether every source has been listed and is being watched.
// Store then counts at least the objects of the first lists.
func (s Status) Live() bool {
	for i := range s.Sources {
		if !s.Sources[i].Reflector.Live() {
			return false
		}
	}
	return s.Running && s.Synced
}

// String returns a summary of a few lines.
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

// Sources returns the state of each list and watch, sorted by namespace. Unlike Status, it does
// not wait for a batch that is being applied.
func (inf *Informer[T]) Sources() []SourceStatus {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.sourceStatuses()
}

// sourceStatuses returns the status of each source. inf.mu must be held.
func (inf *Informer[T]) sourceStatuses() []SourceStatus {
	sources := make([]SourceStatus, 0, len(inf.sources))
	for _, src := range inf.sources {
		sources = append(sources, inf.sourceStatus(src))
	}
	slices.SortFunc(sources, byScope)
	return sources
}

// Status returns the current state. It waits for a batch that is being applied.
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

	// Read after Synced, so that a live status counts the listed objects.
	st.Store, st.Pending, st.Refused = inf.store.Stats(), inf.queue.Stats(), inf.refused.Load()
	if err := inf.refusal.Load(); err != nil {
		st.LastRefused = *err
	}
	st.Audit = inf.audited.Load()
	inf.writes.mu.Lock()
	st.PendingWrites = inf.writes.size
	inf.writes.mu.Unlock()

	inf.log.mu.Lock()
	st.Logged = inf.log.apart + inf.log.size
	for _, c := range inf.log.cursors {
		st.Subscribers = append(st.Subscribers, c.sub.Status())
	}
	inf.log.mu.Unlock()
	return st
}
