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

// run is one call of Run.
type run[K comparable] struct {
	c     *Controller[K]
	fence Fence           // nil: none
	lost  <-chan struct{} // of the fence
	queue *workqueue.Queue[K]
	rate  *rate.Limiter // nil: none
	notes notes[K]
	state atomic.Uint32
	cut   atomic.Bool // a reconcile failed after its context was cancelled at the end of Grace

	intake  context.Context // done when no new reconcile may start
	work    context.Context // done when running reconciles must end
	workers []worker[K]
	serving sync.WaitGroup // the workers

	mu     sync.Mutex // guards errs
	errs   []error
	stop   context.CancelFunc // ends intake
	cancel context.CancelCauseFunc
}

// lastWait is how long Run waits for reconciles whose context is cancelled.
const lastWait = 10 * time.Second

func (r *run[K]) enter(s State) { r.state.Store(uint32(s)) }

// live goes through the states. stuck is true if reconciles have not returned.
func (r *run[K]) live(ctx context.Context) (stuck bool, err error) {
	r.enter(Starting)
	r.intake, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.work, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer r.cancel(nil)
	var feeding sync.WaitGroup
	for i := range r.c.sources {
		feeding.Go(func() { r.feed(&r.c.sources[i]) })
	}
	if r.ready() {
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
	feeding.Wait() // last, because a slow source must not delay the cancellation of reconciles
	r.leave()
	r.queue.ShutDown()
	r.enter(Idle)
	return stuck, errors.Join(r.errs...)
}

// fail ends the run with an error.
func (r *run[K]) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	r.stop()
}

// feed runs a source.
func (r *run[K]) feed(s *Source[K]) {
	defer r.failOnPanic(s)
	in := &Intake[K]{
		controller: r.c.name, source: s.Name, queue: r.queue, failures: &r.c.counts.sourceFailures,
		report: func(err error) { r.c.opts.Logger.Error("a source failed", "source", s.Name, "error", err) },
	}
	if err := s.Run(r.intake, in); err != nil && !r.ending(err) {
		r.fail(fmt.Errorf("controller %s: source %s: %w", r.c.name, s.Name, err))
	}
}

// endTogether is the grace period between the end of an informer and that of its controller.
const endTogether = time.Second

// ending reports whether a source failed because the program shuts down. That stops
// informers and controllers in any order, so a stopped informer is a failure only if the
// controller keeps running for a while.
func (r *run[K]) ending(err error) bool {
	if errors.Is(err, informer.ErrStopped) {
		select {
		case <-r.intake.Done():
		case <-time.After(endTogether):
		}
	}
	return r.intake.Err() != nil
}

// ready waits for the sources, and reports whether all are ready.
func (r *run[K]) ready() bool {
	ctx := r.intake
	if d := r.c.opts.SyncTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("not ready after %v", d))
		defer cancel()
	}
	var errs []error
	for i := range r.c.sources {
		s := &r.c.sources[i]
		if s.Ready == nil {
			continue
		}
		if err := r.readiness(ctx, s); err != nil && !r.ending(err) {
			// After the timeout the other sources return their causes at once.
			errs = append(errs, fmt.Errorf("controller %s: source %s: %w", r.c.name, s.Name, err))
		}
	}
	if len(errs) > 0 {
		r.fail(errors.Join(errs...))
	}
	return r.intake.Err() == nil
}

// readiness calls the Ready of a source. A panic ends the controller, as one of its Run does.
func (r *run[K]) readiness(ctx context.Context, s *Source[K]) error {
	defer r.failOnPanic(s)
	return s.Ready(ctx)
}

// failOnPanic is deferred around the functions of a source: a panic ends the run with an error.
func (r *run[K]) failOnPanic(s *Source[K]) {
	if p := recover(); p != nil {
		r.fail(newPanicError(r.c.name, "source "+s.Name, p))
	}
}

// drain waits for running reconciles, and reports whether all have ended.
func (r *run[K]) drain() bool {
	ended := make(chan struct{})
	go func() {
		r.serving.Wait()
		close(ended)
	}()
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
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-ended:
		return true
	case <-last.C:
		return false
	}
}

// leave reports the keys that are left. After a loss of leadership the next leader
// reconciles them.
func (r *run[K]) leave() {
	s := r.queue.Snapshot()
	left := &LeftError[K]{Controller: r.c.name}
	for _, item := range s.Processing {
		left.Running = append(left.Running, item.Key)
	}
	if !r.isLost() {
		seen := map[K]bool{}
		for _, item := range slices.Concat(s.Waiting, s.Again, s.Delayed) {
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
