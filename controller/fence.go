package controller

import (
	"context"
	"errors"

	"github.com/tarnproject/tarn/object"
)

// Fence decides whether this process may work. It is checked before every reconcile and every
// attempt of a write, so it must be fast and safe for concurrent use.
type Fence interface {
	// Check returns nil if work may start now, and otherwise an error that wraps
	// [ErrNotLeading]. A later call may return nil again, after a late renewal of a lease.
	Check() error
	// Lost is closed when this fence will not open again.
	Lost() <-chan struct{}
}

// writeRecorder is a fence that is informed of the writes of a [Client], so that the next process
// that works on the same keys can wait until its cache has them.
type writeRecorder interface {
	Wrote(cache string, key object.Key, at object.Mark)
}

// Leadership provides a fence for each term of leadership. Package leader implements it with
// Leases.
type Leadership interface {
	// Run campaigns until the context is done. Each time it wins it calls lead, with a
	// context that ends when leadership is lost or ctx is done, and keeps leadership, if
	// possible, until lead has returned. If lead returns an error, or returns before its
	// context is done, Run returns.
	Run(ctx context.Context, lead func(ctx context.Context, fence Fence) error) error
}

type fenceKey struct{}

// WithFence returns a context with a fence. Controllers that run with it and clients that
// write with it check the fence first. [WhileLeading] does this.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// MayWrite checks the fence of a context; it returns nil without one. A [Client] does this
// itself. A reconcile that changes anything by other means calls MayWrite immediately
// before.
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

// WhileLeading returns a Runner that runs controllers while this process leads. They stop when it loses
// leadership and start again when it wins again. Run informers next to it, not in it, so that
// their caches stay warm.
func WhileLeading(l Leadership, controllers ...Runner) Runner { return &whileLeading{l, controllers} }

type whileLeading struct {
	leadership Leadership
	parts      []Runner
}

func (l *whileLeading) stopsFirst() {}

// Run implements [Runner].
func (l *whileLeading) Run(ctx context.Context) error {
	if l.leadership == nil {
		return errors.New("controller: WhileLeading without a Leadership")
	}
	return l.leadership.Run(ctx, func(ctx context.Context, f Fence) error {
		return Run(WithFence(ctx, f), l.parts...)
	})
}
