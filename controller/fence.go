package controller

import (
	"context"
	"errors"
)

// Fence says whether this process may work. It is asked before every reconcile and every
// attempt of a write, from any goroutine, so it must be quick.
type Fence interface {
	// Check returns nil if work may begin now, and otherwise an error that wraps
	// [ErrNotLeading]. It may be asked again: a lease that was late can be renewed.
	Check() error
	// Lost is closed when it is certain that this fence will not open again.
	Lost() <-chan struct{}
}

// Leadership gives this process fences, one after the other. Package leader has the one
// with Leases.
type Leadership interface {
	// Run tries to lead until the context is done. Each time it wins it calls lead, with
	// a context that ends when leadership is lost or ctx is done, and waits for it to
	// return; it goes on leading meanwhile, if it can. What lead returns early, or as an
	// error, ends Run.
	Run(ctx context.Context, lead func(ctx context.Context, fence Fence) error) error
}

type fenceKey struct{}

// WithFence puts a fence into a context: controllers that run with it, and clients that
// write with it, ask the fence first. [Led] does this.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// MayWrite asks the fence of a context; without one the answer is yes. A [Client] asks by
// itself. Whoever changes something else from a reconcile asks right before.
func MayWrite(ctx context.Context) error {
	if f := fenceOf(ctx); f != nil {
		return f.Check()
	}
	return nil
}

func fenceOf(ctx context.Context) Fence {
	f, _ := ctx.Value(fenceKey{}).(Fence)
	return f
}

// Led returns a Runner that runs controllers while this process leads. They end when it
// no longer does, and begin again when it wins again. Informers do not belong here: run
// them beside it, so that they stay warm.
func Led(l Leadership, controllers ...Runner) Runner { return &led{l, controllers} }

type led struct {
	leadership Leadership
	parts      []Runner
}

func (l *led) stopsFirst() {}

// Run implements [Runner].
func (l *led) Run(ctx context.Context) error {
	if l.leadership == nil {
		return errors.New("controller: Led without a Leadership")
	}
	return l.leadership.Run(ctx, func(ctx context.Context, f Fence) error {
		return Run(WithFence(ctx, f), l.parts...)
	})
}
