package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/workqueue"
)

// State is the state of a controller. The states follow each other in this order.
type State uint8

// The states.
const (
	// Idle: the controller does not run, or the process does not lead.
	Idle State = iota
	// Starting: waiting for the sources to be ready.
	Starting
	// Working: keys are reconciled.
	Working
	// Draining: no new reconcile starts, running ones may finish.
	Draining
	// Cancelled: the contexts of the running reconciles are cancelled.
	Cancelled
)

// String returns the state's name in lower case.
func (s State) String() string {
	names := [...]string{Idle: "idle", Starting: "starting", Working: "working", Draining: "draining", Cancelled: "cancelled"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// run is one call of Run. Its group is that of the controller's own sources.
type run[K comparable] struct {
	*group[K]
	c     *Controller[K]
	queue *workqueue.Queue[K]
	rate  *rate.Limiter // nil: none
	turn  chan struct{} // held by the worker that waits for the rate limit; guards token
	token bool          // the rate limit allows a reconcile that has not started
	notes notes[K]
	state atomic.Uint32
	cut   atomic.Bool // a reconcile failed after its context was cancelled at the end of Grace

	workers []worker[K]
	serving sync.WaitGroup // the workers
	feeding sync.WaitGroup // the sources and the attached groups
	deleted deletions[K]   // with Options.Claims

	attaching sync.Mutex // guards all below
	attached  map[string]*group[K]
	closed    bool     // nothing more is attached
	claimed   []string // groups whose keys have to be replayed
	replaying bool
}

func newRun[K comparable](ctx context.Context, c *Controller[K]) *run[K] {
	r := &run[K]{
		group: newGroup(ctx, c.sources, nil),
		c:     c, queue: workqueue.New(c.opts.Queue), workers: make([]worker[K], c.opts.Workers), attached: map[string]*group[K]{},
		turn: make(chan struct{}, 1),
	}
	if c.opts.Rate > 0 {
		r.rate = rate.NewLimiter(rate.Limit(c.opts.Rate), c.opts.Burst)
	}
	return r
}

// lastWait is how long Run waits for reconciles whose context is cancelled.
const lastWait = 10 * time.Second

func (r *run[K]) enter(s State) { r.state.Store(uint32(s)) }

// live runs through the states. stuck is true if reconciles have not returned.
func (r *run[K]) live() (stuck bool, err error) {
	r.enter(Starting)
	defer r.stop()
	defer r.cancel(nil)
	for i := range r.sources {
		r.feeding.Go(func() { r.feed(r.group, &r.sources[i]) })
	}
	if r.ready(r.group, r.c.opts.SyncTimeout) {
		r.enter(Working)
		for i := range r.workers {
			r.serving.Go(func() { r.serve(&r.workers[i]) })
		}
		select {
		case <-r.intake.Done():
		case <-r.lost:
		}
	}
	r.stop()
	r.enter(Draining)
	stuck = !r.drain()
	r.attaching.Lock()
	r.closed = true
	r.attaching.Unlock()
	r.feeding.Wait() // last, because a slow source must not delay the cancellation of reconciles
	r.leave()
	r.queue.ShutDown()
	r.enter(Idle)
	return stuck, errors.Join(r.errs...)
}

// feed runs a source.
func (r *run[K]) feed(g *group[K], s *Source[K]) {
	defer r.failOnPanic(g, s)
	if err := s.Run(g.intake, r.intakeOf(s, r.queue.AddWith)); err != nil && !g.ending(err) {
		g.fail(fmt.Errorf("controller %s: source %s: %w", r.c.name, s.Name, err))
	}
}

// intakeOf returns the intake of a source, whose keys go to add.
func (r *run[K]) intakeOf(s *Source[K], add func(workqueue.Request, ...K)) *Intake[K] {
	in := &Intake[K]{controller: r.c.name, source: s.Name, add: add, failed: func(err error) {
		r.c.counts.sourceFailures.Add(1)
		r.c.report(err, "a source failed", "source", s.Name)
	}}
	if r.c.opts.Claims {
		in.deleted = r.deleted.add
	}
	return in
}

// endTogether is the grace period between the end of an informer and that of its controller.
const endTogether = time.Second

// ending reports whether a source failed because the program shuts down. That stops
// informers and controllers in any order, so a stopped informer is a failure only if the
// controller keeps running for a while.
func (g *group[K]) ending(err error) bool {
	if errors.Is(err, informer.ErrStopped) {
		select {
		case <-g.intake.Done():
		case <-time.After(endTogether):
		}
	}
	return g.intake.Err() != nil
}

// ready waits for the sources, and reports whether all are ready. A limit that is not positive
// is none.
func (r *run[K]) ready(g *group[K], limit time.Duration) bool {
	waiting, stop := context.WithCancel(g.intake)
	defer stop()
	g.waiting.Store(true)
	defer g.waiting.Store(false)
	r.feeding.Go(func() { r.warnNotReady(waiting, g) })
	ctx := waiting
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %v", limit))
		defer cancel()
	}
	var errs []error
	for i := range g.sources {
		s := &g.sources[i]
		if s.Ready == nil {
			continue
		}
		if err := r.readiness(ctx, g, s); err != nil && !g.ending(err) {
			// After the timeout the other sources return their causes at once.
			errs = append(errs, fmt.Errorf("controller %s: source %s: %w", r.c.name, s.Name, err))
		}
	}
	if len(errs) > 0 {
		g.fail(errors.Join(errs...))
	}
	return g.intake.Err() == nil
}

// warnNotReady logs that sources are not ready, until the context is done.
func (r *run[K]) warnNotReady(ctx context.Context, g *group[K]) {
	begin := time.Now()
	next := time.NewTimer(heldLong)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			r.c.warn("the sources are not ready; no key is reconciled before", "for", time.Since(begin).Round(time.Second), "error", g.whyNotReady())
			next.Reset(heldAgain)
		}
	}
}

// whyNotReady returns why the sources are not ready, or nil.
func (g *group[K]) whyNotReady() error {
	if !g.waiting.Load() {
		return nil
	}
	var errs []error
	for i := range g.sources {
		if s := &g.sources[i]; s.NotReady != nil {
			if err := s.NotReady(); err != nil {
				errs = append(errs, fmt.Errorf("source %s: %w", s.Name, err))
			}
		}
	}
	if len(errs) == 0 {
		return errWaiting
	}
	return errors.Join(errs...)
}

var errWaiting = errors.New("waiting")

// notReady returns why a function such as WaitSynced waits; nil if it does not.
func notReady(wait func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errWaiting)
	return wait(ctx)
}

// readiness calls the Ready of a source. A panic ends the controller, as one of its Run does.
func (r *run[K]) readiness(ctx context.Context, g *group[K], s *Source[K]) error {
	defer r.failOnPanic(g, s)
	return s.Ready(ctx)
}

// failOnPanic is deferred around the functions of a source: a panic ends the group with an error.
func (r *run[K]) failOnPanic(g *group[K], s *Source[K]) {
	if p := recover(); p != nil {
		g.fail(newPanicError(r.c.name, "source "+s.Name, "", p))
	}
}

// drain waits for running reconciles, and reports whether all have ended.
func (r *run[K]) drain() bool {
	ended := endOf(&r.serving)
	grace := time.NewTimer(max(0, r.c.opts.Grace))
	defer grace.Stop()
	cause := ErrStopping
	select {
	case <-ended:
		return true
	case <-r.lost:
		cause = ErrNotLeading
	case <-grace.C:
	}
	r.enter(Cancelled)
	r.cancel(cause)
	return endsSoon(ended)
}

// leave reports the keys that are left. After a loss of leadership the next leader
// reconciles them.
func (r *run[K]) leave() {
	s := r.queue.Snapshot()
	left := &UnfinishedError[K]{Controller: r.c.name}
	for _, item := range s.Processing {
		left.Running = append(left.Running, item.Key)
	}
	if r.isLost() || errors.Is(context.Cause(r.intake), ErrNotLeading) { // another process reconciles what waits
		r.c.failures.clear()
	} else {
		seen := map[K]bool{}
		for _, item := range slices.Concat(s.Waiting, s.Dirty, s.Delayed) {
			// A delay after a success is not left work.
			if seen[item.Key] || item.State == workqueue.Delayed && item.Reason != workqueue.AddedRateLimited && !r.notes.isPutBack(item.Key) {
				continue
			}
			seen[item.Key] = true
			left.Waiting = append(left.Waiting, item.Key)
		}
	}
	r.c.mu.Lock()
	r.c.left = left.Waiting
	r.c.mu.Unlock()
	switch {
	case len(left.Running) > 0 || r.cut.Load() && len(left.Waiting) > 0:
		r.fail(left)
	case len(left.Waiting) > 0:
		r.c.opts.Logger.Info("stopped with keys still to be reconciled", "waiting", len(left.Waiting), "keys", fmt.Sprint(left.Waiting[:min(10, len(left.Waiting))]))
	}
}

func (r *run[K]) isLost() bool {
	select {
	case <-r.lost:
		return true
	default:
		return false
	}
}
