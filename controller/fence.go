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

// writeRecorder is a fence that is informed of the writes of a [Tracked], so that the next process
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

// WithFence returns a context with a fence, beside those that it has already. Controllers that
// run with it and clients that write with it check all of them first. [WhileLeading] and [Sharded]
// do this. Without a fence, nil, it returns ctx.
func WithFence(ctx context.Context, f Fence) context.Context {
	if f == nil {
		return ctx
	}
	return context.WithValue(ctx, fenceKey{}, &fences{f, fencesOf(ctx)})
}

// MayWrite checks the fences of a context; it returns nil without one. A [Tracked] does this
// itself. A reconcile that changes anything by other means calls MayWrite immediately
// before.
func MayWrite(ctx context.Context) error { return fencesOf(ctx).check() }

// Fenced reports whether a context has a fence: another process may work on the same keys when it is
// lost. A request that was sent before can arrive after that.
func Fenced(ctx context.Context) bool { return fencesOf(ctx) != nil }

// fences are the fences of a context, the last one first; nil if there is none.
type fences struct {
	fence Fence
	outer *fences
}

func fencesOf(ctx context.Context) *fences {
	f, _ := ctx.Value(fenceKey{}).(*fences)
	return f
}

func (f *fences) check() error {
	for ; f != nil; f = f.outer {
		if err := f.fence.Check(); err != nil {
			return err
		}
	}
	return nil
}

// wrote records a write.
func (f *fences) wrote(cache string, key object.Key, at object.Mark) {
	for ; f != nil; f = f.outer {
		if r, ok := f.fence.(writeRecorder); ok {
			r.Wrote(cache, key, at)
		}
	}
}

// within returns the fences with those of a run, which they may include already.
func (f *fences) within(run *fences) *fences {
	switch {
	case f == nil || f == run:
		return run
	case run == nil:
		return f
	}
	return &fences{f.fence, f.outer.within(run)}
}

// lost returns a channel that is closed when one of the fences is lost, until the context is done. It
// leaves out those of a run, whose loss ends the run, and is nil without others.
func (f *fences) lost(ctx context.Context, run *fences) <-chan struct{} {
	if f == run {
		return nil
	}
	own, outer := f.fence.Lost(), f.outer.lost(ctx, run)
	if outer == nil {
		return own
	}
	either := make(chan struct{})
	go func() {
		select {
		case <-own:
		case <-outer:
		case <-ctx.Done():
			return
		}
		close(either)
	}()
	return either
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
