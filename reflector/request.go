package reflector

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/object"
)

// request is one request to the source. Its context ends with that of the step, when the source
// is silent for too long, or when Relist is called.
type request struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// watchdog ends the request with object.ErrIdle when it fires. It is the only check for
	// silence, for lists, streaming lists and watches alike. It runs while the reflector waits
	// for the source; time that the sink takes does not count as silence.
	watchdog *time.Timer
	done     func() // takes back the registration for Relist
}

// request begins a request. Its watchdog does not run yet.
func (r *Reflector[T]) request(ctx context.Context) *request {
	ctx, cancel := context.WithCancelCause(ctx)
	// A stopped timer may stay in the runtime's heap for a while, so it refers to no more than
	// the context: the sink and its objects are to be freed with the reflector.
	watchdog := time.AfterFunc(time.Hour, func() {
		cancel(fmt.Errorf("the server sent nothing for too long: %w", object.ErrIdle))
	})
	watchdog.Stop()
	q := &request{ctx: ctx, cancel: cancel, watchdog: watchdog}
	set := func(interrupt context.CancelCauseFunc) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.interrupt = interrupt
		switch {
		case interrupt == nil:
		case r.asked != nil:
			interrupt(r.asked)
		case r.resharded && !r.lists():
			interrupt(errShard)
		}
	}
	set(q.cancel)
	q.done = func() { set(nil) }
	return q
}

// end frees the request and returns why it ended, given its error.
func (q *request) end(err error) error {
	q.watchdog.Stop()
	if err != nil {
		err = causeOf(q.ctx, err)
	}
	q.done()
	q.cancel(nil)
	return err
}

// stream is an open watch. A streaming list hands its stream over to the watch that follows.
type stream[T any] struct {
	object.Stream[T]
	*request
	in      *object.Intake[T]
	live    atomic.Bool // the initial state, if there is one, is over; read by the source's goroutines
	heard   bool        // something was received
	opened  time.Time
	timeout time.Duration // that the server was asked for

	unhook   func() bool   // cancels the closing at the end of ctx
	closed   chan struct{} // closed after that closing
	panicked any           // what that closing panicked with
}

// grace is how long a server may take to end a watch whose time is over.
const grace = 30 * time.Second

// silence returns how long an open watch may be silent from now on.
func (r *Reflector[T]) silence(s *stream[T], now time.Time) time.Duration {
	if r.opts.Silence > 0 {
		return r.opts.Silence
	}
	return max(grace, s.opened.Add(s.timeout+grace).Sub(now))
}

// open opens a watch. held says which objects of its initial state need not be decoded.
func (r *Reflector[T]) open(ctx context.Context, opts object.WatchOptions, held object.Held) (*stream[T], error) {
	opts.Selection = r.selection(r.target)
	opts.Bookmarks = true
	opts.Timeout = r.opts.MinWatchTimeout + time.Duration(r.opts.Rand()*float64(r.opts.MinWatchTimeout))
	s := &stream[T]{
		request: r.request(ctx),
		opened:  time.Now(),
		timeout: opts.Timeout,
		closed:  make(chan struct{}),
	}
	if !opts.InitialEvents && r.confirms() {
		opts.Timeout = confirmTimeout // a server may ignore it, so that silence is no sign of a failure
	}
	defer func() {
		if s.Stream == nil { // refused, or a panic
			s.end(nil)
		}
	}()
	s.live.Store(opts.Version.Known() && !opts.InitialEvents)
	if initial := held; initial != nil {
		held = func(key object.Key, uid object.UID, version object.Version) bool {
			return !s.live.Load() && initial(key, uid, version)
		}
	}
	s.in = r.intake(opts.Shard, held, &s.live)
	if opts.InitialEvents {
		s.watchdog.Reset(r.opts.InitialSilence)
	} else {
		s.watchdog.Reset(r.silence(s, s.opened))
	}
	under, err := r.src.Watch(s.ctx, opts, s.in)
	s.watchdog.Stop()
	if err != nil {
		return nil, causeOf(s.ctx, err)
	}
	s.Stream = under
	s.unhook = context.AfterFunc(s.ctx, func() {
		defer close(s.closed)
		defer func() { s.panicked = recover() }()
		under.Close()
	})
	r.now.Counts.Watches++
	return s, nil
}

// next waits for events, up to the silence allowed. Its error is io.EOF where the server ended
// the stream normally.
func (s *stream[T]) next(silence time.Duration) ([]object.Event[T], error) {
	s.watchdog.Reset(silence)
	events, err := s.Next()
	s.watchdog.Stop()
	if err != nil {
		return nil, causeOf(s.ctx, err)
	}
	s.heard = s.heard || len(events) > 0
	for i := range events {
		if events[i].Kind != 0 {
			s.in.Prepare(&events[i].Item)
		}
	}
	return events, nil
}

// close frees everything and waits until it is freed.
func (s *stream[T]) close() {
	defer s.end(nil)
	if s.unhook() {
		s.Close()
		return
	}
	<-s.closed
	if s.panicked != nil {
		panic(s.panicked)
	}
}
