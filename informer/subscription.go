package informer

import (
	"sync/atomic"
	"time"
)

// Subscription is one subscriber's part of an informer. All methods may be called from
// any goroutine, also from within the subscriber's own callbacks.
type Subscription struct {
	name   string
	logged *atomic.Int64 // changes ever logged
	// abandon ends a subscription that no goroutine serves yet.
	abandon func()

	bell   chan struct{}
	over   atomic.Bool // nothing is to be called any more
	due    atomic.Bool // a resync is
	synced chan struct{}
	done   chan struct{}

	seq       atomic.Int64 // changes handled, counted like logged
	since     atomic.Int64 // when the oldest change that is not handled was logged; 0 for none
	called    atomic.Int64 // when the last call began, about
	calls     atomic.Uint64
	falls     atomic.Uint64
	resyncs   atomic.Uint64
	panics    atomic.Uint64
	lastPanic atomic.Pointer[PanicError]
}

// SubscriptionStatus is a report on a subscriber.
type SubscriptionStatus struct {
	Name string
	// Synced is true when the initial state has been handled.
	Synced bool
	// Lag is the number of changes that the subscriber has yet to handle, or, for one
	// that has fallen behind, that it will receive as a difference.
	Lag int
	// LagTime is how long the oldest of them has waited.
	LagTime time.Duration
	// LastCall is when the subscriber was last called, to within a few calls where these
	// are fast; zero if never.
	LastCall time.Time
	// Calls is the number of calls so far.
	Calls uint64
	// CaughtUp counts how often the subscriber fell off the log and was caught up by
	// the difference of two snapshots.
	CaughtUp uint64
	// Resyncs counts the replays that were begun.
	Resyncs uint64
	// Panics counts the calls that panicked; LastPanic is the newest.
	Panics    uint64
	LastPanic error
}

func newSubscription(name string, logged *atomic.Int64) *Subscription {
	return &Subscription{
		name: name, logged: logged,
		bell:   make(chan struct{}, 1),
		synced: make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Name returns the subscriber's name.
func (s *Subscription) Name() string { return s.name }

// Synced returns a channel that is closed when the subscriber has handled the initial
// state: the mirror's state when it was subscribed or, if the mirror had not synced
// then, when it did.
func (s *Subscription) Synced() <-chan struct{} { return s.synced }

// Remove ends the subscription. It does not wait: a call that is going on goes on, and
// Done is closed when it has returned. Removing again does nothing.
func (s *Subscription) Remove() {
	s.stop()
	s.abandon()
}

// Resync replays the present state to this subscriber, as updates from a state to itself (Kind
// Resynced), after the changes that it has yet to handle. It does not wait. A replay that has not
// begun serves for all calls before it, and one that is due before the subscriber has synced
// follows then.
func (s *Subscription) Resync() {
	s.due.Store(true)
	s.ring()
}

// Done returns a channel that is closed after the subscriber's last call: when it has
// been removed, or the informer has stopped.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Status returns the present figures. It is cheap.
func (s *Subscription) Status() SubscriptionStatus {
	st := SubscriptionStatus{
		Name:     s.name,
		Lag:      int(max(0, s.logged.Load()-s.seq.Load())),
		Calls:    s.calls.Load(),
		CaughtUp: s.falls.Load(),
		Resyncs:  s.resyncs.Load(),
		Panics:   s.panics.Load(),
	}
	select {
	case <-s.synced:
		st.Synced = true
	default:
	}
	if since := s.since.Load(); since != 0 && st.Lag > 0 {
		st.LagTime = max(0, time.Since(time.Unix(0, since)))
	}
	if called := s.called.Load(); called != 0 {
		st.LastCall = time.Unix(0, called)
	}
	if p := s.lastPanic.Load(); p != nil {
		st.LastPanic = p
	}
	return st
}

// stop lets no further call begin.
func (s *Subscription) stop() {
	s.over.Store(true)
	s.ring()
}

// ring wakes the reader, or makes its next wait return at once.
func (s *Subscription) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}
