package informer

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// subscriber reads a cursor and calls the user's functions, in one of three forms.
type subscriber[T any] struct {
	*cursor[T]
	events   eventFilter[T]
	onSynced func()
	period   time.Duration // of resyncs
	reading  *store.Reading[T]
	report   func(*PanicError)
	// receive delivers changes; false ends the subscription.
	receive func([]object.Change[T]) bool

	// most and stride say how many changes receive is given at a time. Fast subscribers
	// get many, so that the clock is not read for each.
	most, stride int
	buf          []object.Change[T]
}

const (
	// handlerMost and batchMost limit the number of changes per call of receive.
	handlerMost = 64
	batchMost   = 1024
	// slow is the duration of a call of receive above which changes are delivered one by one,
	// so that the subscriber's status is exact.
	slow = time.Millisecond
)

// serve delivers changes until the subscription ends.
func (s *subscriber[T]) serve() {
	defer s.end()
	if s.period > 0 {
		defer s.alarm(s.period).Stop()
	}
	s.stride = s.most
	for {
		switch p := s.take(); p.what {
		case idle:
			<-s.sub.bell
		case ended:
			return
		case synced:
			s.markSynced()
		case changes:
			for todo := p.changes; len(todo) > 0; {
				n := min(len(todo), s.stride)
				if !s.hand(todo[:n]) {
					return
				}
				s.sub.seq.Add(int64(n))
				todo = todo[n:]
			}
		default:
			if !s.handSnapshots(p) {
				return
			}
		}
	}
}

// end leaves the log and closes done: no further call is made.
func (s *subscriber[T]) end() {
	s.sub.over.Store(true)
	s.leave()
	close(s.sub.done)
}

// handSnapshots delivers a difference or a replay while it is computed.
func (s *subscriber[T]) handSnapshots(p portion[T]) bool {
	if p.what == replay {
		s.sub.resyncs.Add(1)
	}
	counts := p.what == difference && s.from == nil // see begin
	hand := func() bool {
		ok := s.hand(s.buf)
		if counts {
			s.sub.seq.Add(int64(len(s.buf)))
		}
		clear(s.buf)
		s.buf = s.buf[:0]
		return ok
	}
	for c := range store.Diff(p.from, p.to) {
		if p.what == replay {
			c.Kind = object.Synced
		}
		if s.buf = append(s.buf, c); len(s.buf) >= s.stride && !hand() {
			return false
		}
	}
	ok := len(s.buf) == 0 || hand()
	if cap(s.buf) > 0 && p.what == difference {
		s.buf = nil // differences are rare
	}
	return ok
}

// hand calls receive and measures how long it takes.
func (s *subscriber[T]) hand(changes []object.Change[T]) bool {
	begin := time.Now()
	s.sub.called.Store(begin.UnixNano())
	ok := s.receive(changes)
	took := time.Since(begin)
	s.sub.busy.Add(int64(took))
	s.stride = s.most
	if s.most == handlerMost && took >= slow {
		s.stride = 1
	}
	return ok
}

func (s *subscriber[T]) markSynced() {
	if s.onSynced != nil {
		s.guard(object.Key{}, s.onSynced)
	}
	close(s.sub.synced)
}

// guard calls f, and reports its panic.
func (s *subscriber[T]) guard(key object.Key, f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(key, p)
		}
	}()
	f()
}

func (s *subscriber[T]) panicked(key object.Key, value any) {
	e := &PanicError{
		PanicError: object.PanicError{Value: value, Stack: debug.Stack()},
		Subscriber: s.sub.name, Key: key,
	}
	s.sub.panics.Add(1)
	s.sub.lastPanic.Store(e)
	s.report(e)
}

// toHandler makes the subscriber call functions for single changes.
func (s *subscriber[T]) toHandler(h Handler[T]) {
	s.most = handlerMost
	s.receive = func(changes []object.Change[T]) bool {
		for len(changes) > 0 && !s.sub.over.Load() {
			changes = changes[s.call(&h, changes):]
		}
		return len(changes) == 0
	}
}

// call calls the handler for changes until one panics or the subscription ends, and
// returns how many were handled. One deferred function serves all of them.
func (s *subscriber[T]) call(h *Handler[T], changes []object.Change[T]) (n int) {
	calls := uint64(0)
	defer func() {
		if p := recover(); p != nil {
			s.panicked(changes[n-1].Key, p)
		}
		s.sub.calls.Add(calls)
	}()
	for n < len(changes) && !s.sub.over.Load() {
		c := &changes[n]
		n++
		if s.reading != nil {
			read := *c
			read.Value, read.Prior = s.read(c.Value), s.read(c.Prior)
			c = &read
		}
		if s.events == nil {
			calls++
			h.deliver(c, s.initial)
		} else if e, ok := s.events.event(c, s.initial); ok {
			calls++
			h.deliverEvent(&e)
		}
	}
	return n
}

// read decodes a value as the subscriber's reading does.
func (s *subscriber[T]) read(v object.Value[T]) object.Value[T] {
	return object.Decoded(s.reading.Of(v))
}

// deliver calls the function for a change. It is what a change costs each of many subscribers,
// so nothing is copied.
func (h *Handler[T]) deliver(c *object.Change[T], initial bool) {
	switch c.Kind {
	case object.Updated:
		if h.OnUpdate != nil {
			h.OnUpdate(c.Old(), c.New())
		}
	case object.Added:
		if h.OnAdd != nil {
			h.OnAdd(c.New(), initial)
		}
	case object.Deleted:
		if h.OnDelete != nil {
			h.OnDelete(c.New(), c.Unknown)
		}
	case object.Left:
		if h.OnLeave != nil {
			h.OnLeave(c.New())
		}
	default:
		if h.OnResync != nil {
			h.OnResync(c.New())
		}
	}
}

// deliverEvent is deliver for what the filter made of a change.
func (h *Handler[T]) deliverEvent(e *Event[T]) {
	switch e.Kind {
	case object.Added:
		if h.OnAdd != nil {
			h.OnAdd(e.New(), e.Initial)
		}
	case object.Deleted:
		if h.OnDelete != nil {
			h.OnDelete(e.New(), e.Unknown)
		}
	case object.Left:
		if h.OnLeave != nil {
			h.OnLeave(e.New())
		}
	case object.Synced:
		if h.OnResync != nil {
			h.OnResync(e.New())
		}
	default:
		if h.OnUpdate != nil {
			h.OnUpdate(e.Old(), e.New())
		}
	}
}

// toBatch makes the subscriber call a function for many changes.
func (s *subscriber[T]) toBatch(ctx func() context.Context, f func(context.Context, []Event[T])) {
	s.most = batchMost
	var events []Event[T]
	s.receive = func(changes []object.Change[T]) bool {
		if s.sub.over.Load() {
			return false
		}
		s.guard(object.Key{}, func() {
			defer func() {
				clear(events)
				events = events[:0]
			}()
			for i := range changes {
				if e, ok := s.events.event(&changes[i], s.initial); ok {
					events = append(events, e)
				}
			}
			if len(events) > 0 {
				s.sub.calls.Add(1)
				f(ctx(), events)
			}
		})
		return true
	}
}

// toYield makes the subscriber yield single events to a loop. A panic is the loop's.
func (s *subscriber[T]) toYield(yield func(Event[T]) bool) {
	s.most = handlerMost
	s.receive = func(changes []object.Change[T]) bool {
		for i := range changes {
			if s.sub.over.Load() {
				return false
			}
			e, ok := s.events.event(&changes[i], s.initial)
			if !ok {
				continue
			}
			s.sub.calls.Add(1)
			if !yield(e) {
				return false
			}
		}
		return true
	}
}

// alarm makes a resync due once per period and rings the reader's bell.
func (s *subscriber[T]) alarm(period time.Duration) *time.Timer {
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		s.sub.Resync()
		if !s.sub.over.Load() {
			t.Reset(period)
		}
	})
	t.Reset(period)
	return t
}
