package reflector

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// Reflector feeds an [object.Sink] with the state of a source and with every change after it.
// Make one with [New].
//
// Guarantees:
//
//   - The sink receives whole lists and, after each, the events since, in the server's order. A
//     list or streaming list that is cut off changes nothing.
//   - Marks never go back within an epoch. An event that is not after the last version seen is passed on:
//     the sink decides whether it is news, by what it holds (W14, W15).
//   - Deletions may share a version, and none is lost when a watch breaks off between them.
//   - A failed request is not repeated immediately.
//   - Reading from the server takes no more memory than one list.
//
// One goroutine at a time is in Run or Step. All other methods may be called from any goroutine
// at any time.
//
// The reflector is a state machine (see [State]): every state is a type that owns its data and
// has one step function, which returns the next state. All of it runs on the goroutine that is in
// Run or Step. Rejected: a goroutine that reads events and passes them on through a channel, as in
// client-go. It costs a goroutine switch for each event and cannot be single-stepped.
type Reflector[T any] struct {
	src  Source[T]
	sink object.Sink[T]
	opts Options[T]
	busy atomic.Bool // a goroutine is in Run or Step

	state state[T] // the current state; only enter and stop replace it

	// What outlives a state. Only the goroutine in Run or Step reads and writes these.
	at       reach        // how far events have come; a complete list sets it, events and bookmarks advance it
	epoch    object.Epoch // the server's history that versions belong to; a list that finds a rewind advances it
	next     object.Epoch // that of the next list, not before epoch; a list that finds a rewind and Rewound advance it
	shard    object.Shard // the part of the objects that the sink has; a complete list sets it
	target   object.Shard // the part that requests ask for; handleShard sets it
	fallback fallback     // why LIST is used instead of streaming lists; the streaming state writes it
	failures failures     // what failed since a watch last made progress; failing states add to it
	delays   delays       // the back-off delays; backOff advances them
	parts    int          // changes of the shard since the last events or complete list
	current  time.Time    // when the server last sent a version; events and complete lists set it
	size     int          // items in the last complete list, as a capacity for the next
	now      Status       // the status as of this step; publish copies it to status

	woken chan struct{} // has room for one token, which ends the current wait

	mu         sync.Mutex              // guards what follows
	status     Status                  // what Status returns
	quarantine quarantine              // written by the goroutine in Run or Step only, so that it reads without the lock
	asked      error                   // cause of a Relist that no step has handled yet
	restored   object.Epoch            // the latest that Rewound was called with
	wanted     object.Shard            // what SetShard was last called with
	resharded  bool                    // no step has handled that call yet
	confirm    confirmation            // what Confirm was called with
	interrupt  context.CancelCauseFunc // cancels the request in progress; nil without one
}

// New makes a reflector that feeds sink, a *delta.Buffer for example, from src.
func New[T any](src Source[T], sink object.Sink[T], opts Options[T]) (*Reflector[T], error) {
	switch {
	case src == nil:
		return nil, errors.New("reflector: new: no source")
	case sink == nil:
		return nil, errors.New("reflector: new: no sink")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Name == "" {
		opts.Name = callSite()
	}
	opts.Logger = opts.Logger.With("reflector", opts.Name)
	r := &Reflector[T]{
		src:    src,
		sink:   sink,
		opts:   opts,
		state:  idle[T]{},
		at:     reach{progress: progress{Seen: opts.Since.Version}},
		epoch:  opts.Since.Epoch,
		next:   opts.Since.Epoch,
		shard:  opts.Selection.Shard,
		wanted: opts.Selection.Shard,
		target: opts.Selection.Shard,
		delays: delays{Backoff: opts.Backoff, rand: opts.Rand},
		woken:  make(chan struct{}, 1),
	}
	r.now = Status{Name: opts.Name, Since: time.Now()}
	r.now.Counts.Ended = make(map[Reason]int64)
	r.now.Streaming.InUse = opts.Streaming != StreamingOff
	if !r.now.Streaming.InUse {
		r.now.Streaming.Cause = "disabled by Options.Streaming"
	}
	r.publish(false)
	return r, nil
}

// Name returns the reflector's name.
func (r *Reflector[T]) Name() string { return r.opts.Name }

// Run lists and watches until ctx is done or the sink is closed, and then returns nil. It returns
// a [*object.PanicError] if the source panics, and an error if the reflector runs or has run before.
// Everything it started has ended when it returns.
//
// A sink may block: a delta.Buffer at its Limit does so regardless of the context. To stop a
// reflector that feeds one, also close the buffer or keep popping from it.
func (r *Reflector[T]) Run(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return errRunning
	}
	defer r.busy.Store(false)
	for {
		if err := r.step(ctx); err != nil {
			return endOf(ctx, err)
		}
	}
}

// Step performs one step of the current state: one page of a list, one batch of events, one watch
// request, or one wait. It returns nil when there is a next step, and otherwise why this was the last
// step: the context's cause, [delta.ErrClosed] or a [*object.PanicError]. After that, and while
// another goroutine is in Run or Step, it does nothing and returns an error that says so.
//
// It is meant for simulations that control the order of events. Pass the same context to all
// steps; a step with a context that is done frees everything.
func (r *Reflector[T]) Step(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return errRunning
	}
	defer r.busy.Store(false)
	return r.step(ctx)
}

// Relist requests a new list in which every object is decoded, because of cause, which appears in
// the status. A consumer calls it when it cannot use a list (store.ErrNotHeld). It does not block
// and may be called from any goroutine.
func (r *Reflector[T]) Relist(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = &askedError{cause: cause}
	if r.interrupt != nil {
		r.interrupt(r.asked)
	}
}

// errEpoch ends a request of an earlier epoch.
var errEpoch error = &askedError{cause: errors.New("another reflector found that the server's history was restored from a backup")}

// Rewound requests a new list that begins an epoch, which another reflector of the resource has found
// to have begun. Every object is decoded, and the versions seen before do not bind the list. It does
// nothing in that epoch or a later one. It does not block and may be called from any goroutine.
func (r *Reflector[T]) Rewound(epoch object.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch <= r.restored || epoch <= r.status.Mark.Epoch {
		return
	}
	r.restored = epoch
	if r.interrupt != nil {
		r.interrupt(errEpoch)
	}
}

// Wake retries immediately instead of waiting out the current back-off, or when a Retry-After of the
// server has passed. It does nothing in other states, and does not shorten the delay after the next
// failure. It does not block and may be called from any goroutine.
func (r *Reflector[T]) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != BackingOff {
		return
	}
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// endOf returns what Run returns for the last step's error.
func endOf(ctx context.Context, err error) error {
	if p := (*object.PanicError)(nil); errors.As(err, &p) {
		return p
	}
	if ctx.Err() != nil || errors.Is(err, delta.ErrClosed) {
		return nil
	}
	return err
}

// step runs one step of the current state and enters the next.
func (r *Reflector[T]) step(ctx context.Context) (err error) {
	if r.now.State == Stopped {
		return errStopped
	}
	defer func() {
		if v := recover(); v != nil {
			err = &object.PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			r.stop(err)
		}
	}()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	next := r.handleAsked()
	if next == nil {
		next = r.handleShard()
	}
	if next == nil {
		if next, err = r.state.step(ctx, r); err != nil {
			return err
		}
	}
	r.enter(next)
	if w, ok := next.(*watching[T]); ok && len(w.pending) > 0 {
		// A streaming list ended in the middle of a read, whose rest belongs to this step.
		if next, err = w.step(ctx, r); err != nil {
			return err
		}
		r.enter(next)
	}
	return nil
}

// enter makes next the current state, which it may be already, and publishes the status.
func (r *Reflector[T]) enter(next state[T]) {
	entered := next != r.state
	if entered {
		r.state.leave()
		r.state = next
	}
	r.publish(entered)
}

// stop leaves the current state for good.
func (r *Reflector[T]) stop(cause error) {
	defer func() { // also if a Close panics
		// The failure that it was retrying says more than the end of its context.
		if p := (*object.PanicError)(nil); r.now.Cause == nil || errors.As(cause, &p) {
			r.now.Cause = cause
		}
		r.state = stopped[T]{}
		r.publish(true)
	}()
	r.state.leave()
}

// handleAsked returns the state that a call of Relist or Rewound leads to, or nil without one. During
// a back-off the list follows the wait.
func (r *Reflector[T]) handleAsked() state[T] {
	r.mu.Lock()
	asked, restored := r.asked, r.restored
	r.asked = nil
	r.mu.Unlock()
	if restored > r.next {
		if r.next = restored; r.now.State != Idle {
			asked = cmp.Or(asked, errEpoch)
		}
	}
	if asked == nil {
		return nil
	}
	e := r.failed(opOf(r.now.State), Requested, asked)
	if b, ok := r.state.(*backingOff[T]); ok {
		b.next = r.list(plan{fresh: true})
		return nil
	}
	return r.relist(e, plan{fresh: true})
}

// list returns the state in which a list is made.
func (r *Reflector[T]) list(p plan) state[T] {
	if p.plain {
		return &listing[T]{listed: listed[T]{plan: p}}
	}
	if f := &r.fallback; !f.since.IsZero() && time.Since(f.since) >= streamAgainAfter {
		*f = fallback{failed: maxStreamingFailures - 1} // one more failure is enough
		r.now.Streaming = StreamingStatus{InUse: true}
	}
	if r.now.Streaming.InUse {
		return &streaming[T]{listed: listed[T]{plan: p}}
	}
	return &listing[T]{listed: listed[T]{plan: p}}
}

// relist returns the state in which a list is made because a watch failed. The first such list
// follows immediately; if it did not help, the next ones wait.
func (r *Reflector[T]) relist(e *Error, p plan) state[T] {
	next := r.list(p)
	if r.failures.relists.add() > 1 {
		return r.backOff(e, next)
	}
	return next
}

// watch returns the state in which changes are awaited. Without a complete version that takes a
// list: a watch from no version does not report what was deleted in the meantime.
func (r *Reflector[T]) watch() state[T] {
	if r.at.Complete.Known() {
		return &watching[T]{}
	}
	return r.list(plan{})
}

// failed counts and reports a failed request, and returns it as an error.
func (r *Reflector[T]) failed(op string, reason Reason, cause error) *Error {
	e := &Error{Name: r.opts.Name, Op: op, Reason: reason, Err: cause}
	r.ended(reason)
	r.now.Cause, r.now.LastError, r.now.LastErrorAt = e, e, time.Now()
	r.publish(false)
	switch {
	case r.opts.OnError != nil:
		r.opts.OnError(e)
	case reason == Expired, reason == Requested:
		r.opts.Logger.Info("listing again", "op", op, "reason", string(reason), "err", cause)
	default:
		r.opts.Logger.Warn("request failed", "op", op, "reason", string(reason), "err", cause)
	}
	return e
}

// mark returns how far events have come.
func (r *Reflector[T]) mark() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Seen, Shard: r.shard}
}

// complete returns the mark up to which the sink has everything.
func (r *Reflector[T]) complete() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Complete, Shard: r.shard}
}
