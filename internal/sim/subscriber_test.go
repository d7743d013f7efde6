package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
)

// temper is how a subscriber behaves.
type temper uint8

const (
	fast      temper = iota
	slow             // takes its time for each event
	blocked          // handles nothing until the gate opens
	panicking        // now and then, having taken the event in
	selfless         // removes itself after some events
	batching         // gets many events at once
	looping          // over Events
	choosy           // has a filter
	picky            // has a filter by the status
	tempers
)

var temperNames = [tempers]string{"fast", "slow", "blocked", "panicking", "selfless", "batching", "looping", "choosy", "picky"}

// subscriber receives changes from the informer.
type subscriber struct {
	temper temper
	view   *sim.View
	trace  *sim.Trace
	gate   func() // waits, if it is closed
	pause  time.Duration
	few    int // events that selfless ones, and some loops, want

	handle  atomic.Pointer[informer.Subscription] // nil for a loop
	leave   context.CancelFunc                    // ends a loop
	ended   chan struct{}                         // of a loop: it is over
	calls   atomic.Int64
	removed atomic.Bool // by itself: no call may follow
	done    atomic.Bool // no call may follow
}

// subscribe makes a subscriber up. gate waits until blocked ones may go on.
func subscribe(inf *informer.Informer[*sim.Thing], name string, r *rand.Rand, server *sim.Server, trace *sim.Trace, gate func()) (*subscriber, error) {
	s := &subscriber{
		temper: temper(r.IntN(int(tempers))), trace: trace, gate: gate,
		pause: time.Duration(1+r.IntN(20)) * time.Second, few: r.IntN(30),
	}
	name += " " + temperNames[s.temper]
	s.view = sim.NewView(name, server, trace)
	trace.Add(name, "subscribes")
	opts := informer.SubOptions[*sim.Thing]{Name: name}
	if r.IntN(4) == 0 {
		opts.Resync = time.Duration(1+r.IntN(10)) * time.Minute
	}
	handler := informer.Handler[*sim.Thing]{
		OnAdd:    func(t *sim.Thing, _ bool) { s.called(func() { s.view.Add(t) }) },
		OnUpdate: func(old, t *sim.Thing) { s.called(func() { s.view.Update(old, t, old == t) }) },
		OnDelete: func(t *sim.Thing, unknown bool) { s.called(func() { s.view.Delete(t, unknown) }) },
		OnLeave:  func(t *sim.Thing) { s.called(func() { s.view.Leave(t) }) },
	}
	var handle *informer.Subscription
	var err error
	switch s.temper {
	case batching:
		handle, err = inf.SubscribeBatch(func(_ context.Context, events []informer.Event[*sim.Thing]) {
			for _, ev := range events {
				s.called(func() { s.take(ev) })
			}
		}, opts)
	case looping:
		s.loop(inf, opts)
	default:
		opts.Filter = filters[s.temper]
		handle, err = inf.Subscribe(handler, opts)
	}
	s.handle.Store(handle)
	return s, err
}

// filters are those of subscribers that have one.
var filters = [tempers]func(*sim.Thing) bool{
	choosy: func(t *sim.Thing) bool { return t.Labels["tier"] == "a" },
	picky:  func(t *sim.Thing) bool { return t.Status%2 == 0 },
}

// called wraps every call of a handler.
func (s *subscriber) called(take func()) {
	switch {
	case s.done.Load():
		s.view.Fail("a call after Done")
	case s.removed.Load():
		s.view.Fail("a call after it removed itself")
	}
	if s.temper == blocked {
		s.gate()
	}
	take()
	n := s.calls.Add(1)
	switch {
	case s.temper == slow:
		pass(s.pause)
	case s.temper == panicking && n%5 == 0:
		panic("a panic that is part of the simulation")
	case s.temper == selfless && n >= int64(s.few):
		if handle := s.handle.Load(); handle != nil {
			s.removed.Store(true)
			s.trace.Add("sim", "%s removes itself", handle.Status().Name)
			handle.Remove()
		}
	}
}

func (s *subscriber) take(ev informer.Event[*sim.Thing]) {
	switch ev.Kind {
	case object.Added:
		s.view.Add(ev.New())
	case object.Updated:
		s.view.Update(ev.Old(), ev.New(), false)
	case object.Deleted:
		s.view.Delete(ev.New(), ev.Unknown)
	case object.Left:
		s.view.Leave(ev.New())
	case object.Synced:
		s.view.Update(ev.Old(), ev.New(), true)
	}
}

// loop reads Events in a goroutine of its own. Half of the loops leave by themselves.
func (s *subscriber) loop(inf *informer.Informer[*sim.Thing], opts informer.SubOptions[*sim.Thing]) {
	var ctx context.Context
	ctx, s.leave = context.WithCancel(context.Background())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		for ev := range inf.Events(ctx, opts) {
			s.called(func() { s.take(ev) })
			if s.few%2 == 0 && s.calls.Load() > int64(s.few) {
				s.removed.Store(true)
				break
			}
		}
	}()
}

// remove ends the subscription from outside.
func (s *subscriber) remove() {
	s.trace.Add("sim", "a subscriber is removed")
	handle := s.handle.Load()
	if handle == nil {
		s.leave()
		return
	}
	handle.Remove()
	handle.Remove() // harmless
}

// over reports whether nothing is called any more, and remembers it.
func (s *subscriber) over() bool {
	var end <-chan struct{} = s.ended
	if handle := s.handle.Load(); handle != nil {
		end = handle.Done()
	}
	select {
	case <-end:
		s.done.Store(true)
		return true
	default:
		return false
	}
}

// check is what must hold at a quiet point, when the subscriber has received everything.
func (s *subscriber) check(state map[object.Key]*sim.Thing) error {
	if err := s.view.Err(); err != nil {
		return err
	}
	if s.over() || s.removed.Load() {
		return nil
	}
	if handle := s.handle.Load(); handle != nil {
		st := handle.Status()
		if !st.Synced {
			return fmt.Errorf("%s is not synced: %+v", st.Name, st)
		}
		if st.Lag != 0 {
			return fmt.Errorf("%s has received everything, but its lag is %d", st.Name, st.Lag)
		}
	}
	passes := filters[s.temper]
	if passes == nil {
		return s.view.Compare(state)
	}
	some := map[object.Key]*sim.Thing{}
	for k, t := range state {
		if passes(t) {
			some[k] = t
		}
	}
	return s.view.Compare(some)
}
