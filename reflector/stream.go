package reflector

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/object"
)

// request is something asked of the source that can be cancelled: by the context of
// the step, by a timer when it is silent, and by Relist.
type request struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// begin makes a request that may be silent for a time.
func (r *Reflector[T]) begin(ctx context.Context, silence time.Duration) *request {
	q := &request{}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	q.timer = time.AfterFunc(silence, func() {
		q.cancel(fmt.Errorf("nothing came for too long: %w", object.ErrIdle))
	})
	r.mu.Lock()
	r.interrupt = q.cancel
	if r.asked != nil {
		q.cancel(r.asked)
	}
	r.mu.Unlock()
	return q
}

// end frees a request and returns why it ended, given its error.
func (r *Reflector[T]) end(q *request, err error) error {
	q.timer.Stop()
	if err != nil {
		err = causeOf(q.ctx, err)
	}
	r.mu.Lock()
	r.interrupt = nil
	r.mu.Unlock()
	q.cancel(nil)
	return err
}

// stream is an open watch.
type stream[T any] struct {
	object.Stream[T]
	*request
	r       *Reflector[T]
	in      *object.Intake[T]
	opened  time.Time
	timeout time.Duration // that the server was asked for
	// deadline is when silence becomes too long, and left the time until then at the
	// last look at the clock: one look less for each read.
	deadline time.Time
	left     time.Duration
	frames   int // that have come
	// synthetic: it began at no version, so with the state, in no order; high is the
	// latest version of it that came.
	synthetic bool
	high      object.Version
	// settled: initial events are over, and nothing is asked for being held.
	settled *atomic.Bool

	unhook  func() bool   // the closing at the end of ctx
	closing chan struct{} // closed after that
	thrown  any           // by it
}

// grace is how long a server may take to end a watch whose time is over.
const grace = 30 * time.Second

// open opens a watch. The error is why not.
func (r *Reflector[T]) open(ctx context.Context, opts object.WatchOptions, held object.Held) error {
	opts.Selection = r.opts.Selection
	opts.Bookmarks = true
	opts.Timeout = r.opts.MinWatchTimeout + time.Duration(r.opts.Rand()*float64(r.opts.MinWatchTimeout))
	s := &stream[T]{
		r:         r,
		opened:    time.Now(),
		timeout:   opts.Timeout,
		synthetic: !opts.Version.Known() && !opts.InitialEvents,
		settled:   new(atomic.Bool),
		closing:   make(chan struct{}),
	}
	if held != nil {
		inner := held
		held = func(key object.Key, uid object.UID, version object.Version) bool {
			return !s.settled.Load() && inner(key, uid, version)
		}
	}
	s.in = r.intake(held, func() bool { return !opts.InitialEvents || s.settled.Load() })
	s.extend(s.opened, opts.InitialEvents)
	s.request = r.begin(ctx, s.left)
	done := false
	defer func() {
		if !done { // a panic
			r.end(s.request, nil)
		}
	}()
	under, err := r.src.Watch(s.ctx, opts, s.in)
	done = true
	s.timer.Stop()
	if err != nil {
		return r.end(s.request, err)
	}
	s.left = time.Until(s.deadline)
	s.Stream = under
	s.unhook = context.AfterFunc(s.ctx, func() {
		defer close(s.closing)
		defer func() { s.thrown = recover() }()
		under.Close()
	})
	r.stream = s
	r.counts.Watches++
	r.update(func(st *Status) {
		st.Connected = true
		r.publish(st)
		r.notify()
	})
	return nil
}

// extend moves the deadline after something came.
func (s *stream[T]) extend(now time.Time, initial bool) {
	switch o := &s.r.opts; {
	case initial:
		s.deadline = now.Add(o.InitialSilence)
	case o.Silence > 0:
		s.deadline = now.Add(o.Silence)
	default:
		s.deadline = now.Add(grace)
		if over := s.opened.Add(s.timeout + grace); over.After(s.deadline) {
			s.deadline = over
		}
	}
	s.left = s.deadline.Sub(now)
}

// next waits for events until the deadline. It closes the stream when it returns an
// error, which is io.EOF where the server ended it in order.
func (s *stream[T]) next() ([]object.Event[T], error) {
	s.timer.Reset(s.left)
	events, err := s.Next()
	s.timer.Stop()
	if err == nil {
		s.frames += len(events)
		for i := range events {
			if events[i].Kind != 0 {
				s.in.Prepare(&events[i].Item)
			}
		}
		return events, nil
	}
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	s.r.stream = nil
	s.close()
	if err == io.EOF && s.frames == 0 && time.Since(s.opened) < time.Second {
		err = ErrShort
	}
	return nil, err
}

// close frees everything, and waits until it is free.
func (s *stream[T]) close() {
	defer s.r.end(s.request, nil)
	if s.unhook() {
		s.Close()
	} else {
		<-s.closing
		if s.thrown != nil {
			panic(s.thrown)
		}
	}
}
