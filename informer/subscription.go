package informer

import (
	"sync/atomic"
	"time"
)

// Subscription is a registered subscriber. All methods may be called from any goroutine,
// including the subscriber's own callbacks.
type Subscription struct {
	name   string
	logged *atomic.Int64 // changes ever logged
	// abandon ends a subscription that no goroutine serves yet.
	abandon func()

	bell   chan struct{}
	over   atomic.Bool // no further call may begin
	due    atomic.Bool // a resync is due
	synced chan struct{}
	done   chan struct{}

	seq       atomic.Int64 // changes handled, counted like logged
	since     atomic.Int64 // when the oldest change that is not handled was logged; 0 for none
	called    atomic.Int64 // when the last call began, about
	busy      atomic.Int64 // nanoseconds
	calls     atomic.Uint64
	falls     atomic.Uint64
	resyncs   atomic.Uint64
	panics    atomic.Uint64
	lastPanic atomic.Pointer[PanicError]
}

// SubscriptionStatus is the state of a subscriber.
type SubscriptionStatus struct {
	Name string
	// Synced is true when the initial state has been handled.
	Synced bool
	// Lag is the number of changes that the subscriber has not handled yet, including those that
	// it will receive as a difference.
	Lag int
	// LagTime is how long the oldest of them has waited.
	LagTime time.Duration
	// LastCall is the time of the last call, zero if there was none. For fast subscribers it is
	// accurate to within a few calls.
	LastCall time.Time
	// Calls is the number of calls so far.
	Calls uint64
	// Busy is how long they took together. It does not include the call in progress, which began
	// at LastCall.
	Busy time.Duration
	// CaughtUp counts how often the subscriber fell off the log and was caught up with the
	// difference between two snapshots.
	CaughtUp uint64
	// Resyncs counts the replays that have begun.
	Resyncs uint64
	// Panics counts the calls that panicked; LastPanic is the latest.
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

// Synced returns a channel that is closed when the subscriber has handled the initial state: the
// state when it subscribed or, if the informer had not synced then, when it did.
func (s *Subscription) Synced() <-chan struct{} { return s.synced }

// Remove ends the subscription. It does not wait for a call in progress; Done is closed when that
// call has returned. Removing again does nothing.
func (s *Subscription) Remove() {
	s.stop()
	s.abandon()
}

// Resync replays the current state to this subscriber, as updates without a change (Kind Synced),
// after the changes that it has not handled yet. It does not wait. Calls before the replay begins
// share one replay. Before the subscriber has synced, the replay is postponed until then.
func (s *Subscription) Resync() {
	s.due.Store(true)
	s.ring()
}

// Done returns a channel that is closed after the subscriber's last call: when it has
// been removed, or the informer has stopped.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Status returns the current state. It is cheap.
func (s *Subscription) Status() SubscriptionStatus {
	st := SubscriptionStatus{
		Name:     s.name,
		Lag:      int(max(0, s.logged.Load()-s.seq.Load())),
		Calls:    s.calls.Load(),
		Busy:     time.Duration(s.busy.Load()),
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

// ring wakes the reader, or makes its next wait return immediately.
func (s *Subscription) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}
