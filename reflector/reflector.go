package reflector

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// Reflector feeds an [object.Sink] with the state of a source and with everything that changes
// in it. Make one with [New].
//
// What it guarantees:
//
//   - The sink gets whole lists and, after each, the events since, in the order of the
//     server. A list or a streaming list that is cut off changes nothing.
//   - Versions never go back within an epoch. An Added or Modified event that is not after the
//     version seen is dropped. So is a Deleted one before that version, unless the sink holds the
//     object of that UID at the event's version or an earlier one (W14, W15). Deletions may share
//     a version, and none is lost where a watch breaks off between them.
//   - Nothing is asked again at once that has just failed.
//   - What is read of the server, events and items, costs no more memory than one list.
//
// One goroutine at a time is in Run or Step; all other methods may be called from any
// goroutine at any time.
//
// Everything that decides what to do next is in Step and below, in one goroutine. A
// timer cancels the request that is silent for too long. Rejected: a goroutine that
// reads events and passes them on through a channel, as in client-go. It costs a switch
// of goroutines for each event and makes it impossible to single-step.
type Reflector[T any] struct {
	src  Source[T]
	sink object.Sink[T]
	opts Options[T]
	busy atomic.Bool // somebody is in Run or Step

	// What follows belongs to whoever is in Run or Step.
	delays    delays
	list      listing[T] // being made, or to be made next
	stream    *stream[T] // open, or nil
	at        reach
	epoch     object.Epoch
	afterWait State
	synced    bool
	streaming bool      // streaming lists are in use
	aborted   int       // streaming lists since the last complete one that came to nothing
	gaveUp    time.Time // when that were too many
	paged     bool      // the first LIST came in pages
	trouble   trouble
	size      int             // items of the last list; the next will be about as long
	news      int64           // events that told something new
	slot      bool            // one of the budget is taken
	counts    Counts          // but for Ended, which only the status has
	batch     object.Batch[T] // of the events being read; empty between steps

	woken chan struct{} // holds one token: the wait is to end

	mu         sync.Mutex // guards what follows
	status     Status
	changed    chan struct{} // made when somebody asks for it
	quarantine quarantine
	asked      error // the cause of a Relist that has not been heard yet
	interrupt  context.CancelCauseFunc
}

// trouble is what went wrong since a watch last brought something, and how often.
type trouble struct {
	relists     int       // lists that were made because of it
	failures    int       // at the same version
	relisted    bool      // for that
	hurried     int       // watches that were closed within a second, but brought something
	serverError time.Time // the first
	notFound    int       // answers to LIST
	notFoundAt  time.Time // the first
}

// New makes a reflector that feeds sink, a *delta.FIFO for example, from src.
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
		src:       src,
		sink:      sink,
		opts:      opts,
		delays:    delays{Backoff: opts.Backoff, rand: opts.Rand},
		streaming: opts.Streaming != StreamingOff,
		at:        reach{Reach: object.Reach{Seen: opts.Since.Version}},
		epoch:     opts.Since.Epoch,
		woken:     make(chan struct{}, 1),
	}
	r.status = Status{Name: opts.Name, Since: time.Now(), Mark: r.mark()}
	r.status.Counts.Ended = make(map[Reason]int64)
	r.status.Streaming.InUse = r.streaming
	if !r.streaming {
		r.status.Streaming.WhyNot = "turned off by Options.Streaming"
	}
	return r, nil
}

// Name returns what the reflector is called.
func (r *Reflector[T]) Name() string { return r.opts.Name }

// Run lists and watches until ctx is done or the sink is closed, and then returns nil.
// It returns a [*object.PanicError] if the source panics, and [ErrStopped] if the reflector
// has run before. Nothing it started is left when it returns.
//
// A producer waits while a FIFO is at its Limit, whatever its context says: whoever
// stops a reflector of such a FIFO closes that as well, or goes on taking from it.
func (r *Reflector[T]) Run(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.busy.Store(false)
	for {
		if err := r.step(ctx); err != nil {
			return endOf(ctx, err)
		}
	}
}

// Step does the one thing that the present state asks for: one page of a list, one
// batch of events, one request to watch, or one wait. It returns nil when there is a
// next step, [ErrStopped] when there is none because an earlier one was the last, and
// the cause when this was the last one: the context's, [delta.ErrClosed] or a
// [*object.PanicError].
//
// It is for simulations that must decide what happens when. All steps of a reflector
// are to have the same context; one with a context that is done frees everything.
func (r *Reflector[T]) Step(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.busy.Store(false)
	return r.step(ctx)
}

// Relist asks for everything to be listed and decoded anew, because of cause, which
// appears in the status. The consumer calls it when it cannot make use of
// a list: store.ErrNotHeld. It does not wait, and may be called from any goroutine.
func (r *Reflector[T]) Relist(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = &askedError{cause: cause}
	if r.interrupt != nil {
		r.interrupt(r.asked)
	}
}

// Wake ends a wait, for whoever knows that what failed will work now. It does nothing if
// the reflector is not BackingOff; the next failure waits as long as it would have. It
// does not wait, and may be called from any goroutine.
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

func (r *Reflector[T]) step(ctx context.Context) (err error) {
	state := r.status.State // which nobody else changes
	if state == Stopped {
		return ErrStopped
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
	if r.heard() {
		return nil
	}
	switch state {
	case Idle:
		r.relist(listing[T]{})
	case Listing:
		return r.stepListing(ctx)
	case Streaming:
		return r.stepStreaming(ctx)
	case Watching:
		return r.stepWatching(ctx)
	case BackingOff:
		return r.stepWait(ctx)
	}
	return nil
}

// heard turns a Relist that was asked for into a list, and reports whether it did.
func (r *Reflector[T]) heard() bool {
	r.mu.Lock()
	asked := r.asked
	r.asked = nil
	r.mu.Unlock()
	if asked == nil {
		return false
	}
	state := r.status.State
	e := r.failed(opOf(state), Asked, asked)
	if state == BackingOff {
		r.list = listing[T]{fresh: true, epoch: r.epoch}
		r.afterWait = r.listState()
		return false
	}
	r.relistAfter(e, listing[T]{fresh: true})
	return true
}

// relist begins a list, which replaces the one being made, if any.
func (r *Reflector[T]) relist(l listing[T]) {
	r.drop()
	if l.epoch == 0 {
		l.epoch = r.epoch
	}
	r.list = l
	r.streamAgain()
	r.enter(r.listState(), func(s *Status) { s.Page = 1; s.Connected = false })
}

// relistAfter is relist, but waits if the last such list did not help.
func (r *Reflector[T]) relistAfter(e *Error, l listing[T]) {
	r.relist(l)
	if r.trouble.relists++; r.trouble.relists > 1 {
		r.backOff(e, r.status.State)
	}
}

// listState returns the state in which the next list is made.
func (r *Reflector[T]) listState() State {
	if r.streaming && !r.list.plain {
		return Streaming
	}
	return Listing
}

// failed notes the end of a request, tells whoever wants to know, and returns it as
// an error.
func (r *Reflector[T]) failed(op string, reason Reason, cause error) *Error {
	e := &Error{Name: r.opts.Name, Op: op, Reason: reason, Err: cause}
	r.update(func(s *Status) {
		s.Counts.Ended[reason]++
		s.Cause, s.LastError, s.LastErrorAt = e, e, time.Now()
		r.publish(s)
	})
	switch {
	case r.opts.OnError != nil:
		r.opts.OnError(e)
	case reason == Expired, reason == Asked:
		r.opts.Logger.Info("listing again", "op", op, "reason", string(reason), "err", cause)
	default:
		r.opts.Logger.Warn("request failed", "op", op, "reason", string(reason), "err", cause)
	}
	return e
}

// publish copies the counts into the status.
func (r *Reflector[T]) publish(s *Status) {
	ended := s.Counts.Ended
	s.Counts = r.counts
	s.Counts.Ended = ended
}

// backOff begins a wait, after which next follows.
func (r *Reflector[T]) backOff(cause *Error, next State) {
	r.drop()
	wait := r.delays.next(time.Now(), retryAfter(cause))
	r.afterWait = next
	select {
	case <-r.woken: // from a wait that had ended by itself
	default:
	}
	r.counts.Waits++
	r.enter(BackingOff, func(s *Status) {
		s.Connected = false
		s.Until = s.Since.Add(wait)
		s.Cause = cause
		r.publish(s)
	})
}

func (r *Reflector[T]) stepWait(ctx context.Context) error {
	t := time.NewTimer(time.Until(r.status.Until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.woken:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.enter(r.afterWait, func(s *Status) {
		if r.afterWait == Listing {
			s.Page = max(r.list.page, 1)
		}
	})
	return nil
}

// drop closes the stream and gives the slot back.
func (r *Reflector[T]) drop() {
	if r.slot {
		r.slot = false
		r.opts.Budget.release()
	}
	if s := r.stream; s != nil {
		r.stream = nil
		s.close()
	}
}

func (r *Reflector[T]) stop(cause error) {
	defer r.enter(Stopped, func(s *Status) { // even if a Close panics
		s.Connected = false
		// What it was failing for says more than that its context is done.
		if p := (*object.PanicError)(nil); s.Cause == nil || errors.As(cause, &p) {
			s.Cause = cause
		}
		r.publish(s)
	})
	r.list = listing[T]{}
	r.drop()
}

// takeSlot waits for one of the budget, if there is one.
func (r *Reflector[T]) takeSlot(ctx context.Context) error {
	if r.opts.Budget == nil || r.slot {
		return nil
	}
	if err := r.opts.Budget.take(ctx); err != nil {
		return err
	}
	r.slot = true
	return nil
}

func (r *Reflector[T]) logSlowList(l *listing[T], items int) {
	if took := time.Since(l.started); took > r.opts.SlowList {
		r.opts.Logger.Warn("slow list", "took", took, "pages", l.page, "items", items,
			slog.Bool("streaming", l.page == 0))
	}
}
