package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// group is a set of sources and the keys that they supply.
type group[K comparable] struct {
	sources  []Source[K]
	fences   *fences                 // nil: none
	lost     <-chan struct{}         // one of them, except those of the run
	intake   context.Context         // done when no new reconcile may start
	work     context.Context         // done when running reconciles must end
	running  sync.WaitGroup          // the reconciles of its keys
	stop     context.CancelFunc      // ends intake
	cancel   context.CancelCauseFunc // ends work
	detached bool                    // no reconcile starts any more; guarded by the run's attaching
	waiting  atomic.Bool             // for the sources to be ready

	mu   sync.Mutex // guards errs
	errs []error
}

// newGroup returns a group in a run with fences of its own.
func newGroup[K comparable](ctx context.Context, sources []Source[K], run *fences) *group[K] {
	g := &group[K]{sources: sources, fences: fencesOf(ctx).within(run)}
	g.intake, g.stop = context.WithCancel(ctx)
	g.work, g.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), fenceKey{}, g.fences))
	g.lost = g.fences.lost(g.work, run)
	return g
}

// fail ends the group with an error.
func (g *group[K]) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.errs = append(g.errs, err)
	g.stop()
}

// Attach runs sources in a controller that has none of its own, until the context is done. It is
// for sources that come and go while the controller runs, such as those of a cluster. All keys
// of the sources belong to one group: Options.Queue.Group returns its name.
//
//   - Keys are added while the controller runs and once all sources are ready. Options.SyncTimeout
//     does not apply, and other groups do not wait.
//   - Reconciles of the group have the values of ctx. The fences of ctx and those of Run are checked
//     before a reconcile and before its writes.
//   - When ctx is done, running reconciles of the group are cancelled at once, and its other keys
//     are dropped when a worker takes them from the queue. Attach returns when the last reconcile
//     has ended.
//
// The error is that of a source, or reports that reconciles ignore their cancelled context. Neither
// ends the controller.
func (c *Controller[K]) Attach(ctx context.Context, name string, sources ...Source[K]) error {
	if len(c.sources) > 0 {
		return fmt.Errorf("controller %s: attach %s: the controller has sources of its own", c.name, name)
	}
	if err := checkSources(c.name, sources); err != nil {
		return err
	}
	return c.eachRun(ctx, func(r *run[K]) error { return r.attach(ctx, name, sources) })
}

// eachRun calls f for the current run of the controller and all later ones until ctx is done.
func (c *Controller[K]) eachRun(ctx context.Context, f func(*run[K]) error) error {
	for {
		c.mu.Lock()
		r, changed := c.run, c.changed
		c.mu.Unlock()
		if r != nil {
			if err := f(r); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// attach is Attach for one run of the controller.
func (r *run[K]) attach(ctx context.Context, name string, sources []Source[K]) error {
	g := newGroup(ctx, sources, r.fences)
	defer g.stop()
	defer g.cancel(nil)
	defer context.AfterFunc(r.intake, g.stop)()
	if ok, err := r.register(name, g); !ok {
		return err
	}
	defer r.feeding.Done()

	var feeding sync.WaitGroup
	if r.ready(g, 0) {
		for i := range g.sources {
			feeding.Go(func() { r.feed(g, &g.sources[i]) })
		}
		select {
		case <-g.intake.Done():
		case <-g.lost:
			g.stop()
		}
	}
	ended := r.detach(g)
	if r.intake.Err() != nil && ctx.Err() == nil {
		// The controller shuts down: reconciles have its grace period.
		select {
		case <-ended:
		case <-ctx.Done():
		case <-r.work.Done():
		}
	}
	g.cancel(cmp.Or(context.Cause(r.work), context.Cause(ctx)))
	if !endsSoon(ended) {
		g.fail(fmt.Errorf("controller %s: group %s: %v after they were cancelled: %w", r.c.name, name, lastWait, ErrStillRunning))
	}
	feeding.Wait()
	r.forget(name)
	return errors.Join(g.errs...)
}

// register adds a group, unless the run has ended. The caller then calls feeding.Done when the group
// has ended.
func (r *run[K]) register(name string, g *group[K]) (ok bool, err error) {
	r.attaching.Lock()
	defer r.attaching.Unlock()
	switch {
	case r.closed:
		return false, nil
	case r.attached[name] != nil:
		return false, fmt.Errorf("controller %s: a group %s is attached already", r.c.name, name)
	}
	r.attached[name] = g
	r.feeding.Add(1)
	return true, nil
}

// detach makes sure that no reconcile of the group starts any more. The channel is closed when the
// running ones have ended.
func (r *run[K]) detach(g *group[K]) <-chan struct{} {
	r.attaching.Lock()
	g.detached = true
	r.attaching.Unlock()
	return endOf(&g.running)
}

// forget removes a group and what is recorded about its keys. Those in the queue are dropped when
// a worker takes them.
func (r *run[K]) forget(name string) {
	of := func(key K) bool {
		group, _ := r.c.groupOf(key)
		return group == name
	}
	for _, key := range r.notes.drop(of) {
		r.queue.Forget(key)
	}
	if r.intake.Err() == nil {
		r.c.failures.dropAll(of)
	}
	r.attaching.Lock()
	defer r.attaching.Unlock()
	delete(r.attached, name)
}

// groupOf returns the group of a key that is about to be reconciled, or nil if that is no longer
// attached. The caller calls running.Done after the reconcile. The error is the panic of Queue.Group.
func (r *run[K]) groupOf(key K) (*group[K], error) {
	if len(r.sources) > 0 && !r.c.opts.Claims {
		r.running.Add(1)
		return r.group, nil
	}
	name, err := r.c.groupOf(key)
	r.attaching.Lock()
	defer r.attaching.Unlock()
	g := r.attached[name]
	if g == nil || g.detached || err != nil {
		return nil, err
	}
	g.running.Add(1)
	return g, nil
}

// notReady returns why sources are not ready.
func (r *run[K]) notReady() error {
	r.attaching.Lock()
	groups := append(slices.Collect(maps.Values(r.attached)), r.group)
	r.attaching.Unlock()
	var errs []error
	for _, g := range groups {
		errs = append(errs, g.whyNotReady())
	}
	return errors.Join(errs...)
}

// endOf returns a channel that is closed when the group of goroutines has ended.
func endOf(running *sync.WaitGroup) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	return ended
}

// endsSoon reports whether reconciles whose context is cancelled end within lastWait.
func endsSoon(ended <-chan struct{}) bool {
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-ended:
		return true
	case <-last.C:
		return false
	}
}
