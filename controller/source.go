package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// Initial is the priority of keys that are reconciled without a change: the state at the
// start, resyncs, and keys from [Every].
const Initial = -100

// Source supplies a controller with keys. Only Run is required. One source may serve several
// controllers, and several runs of each.
type Source[K comparable] struct {
	// Name appears in errors.
	Name string
	// Ready blocks until the data that reconciles read is available. Workers start when all
	// sources are ready.
	Ready func(ctx context.Context) error
	// NotReady returns why Ready has not returned, for Status. Defaults to none: the cause is not shown.
	NotReady func() error
	// Run adds keys until the context is done, and returns when its last goroutine has
	// ended. An error before that ends the controller.
	Run func(ctx context.Context, in *Intake[K]) error
	// Replay adds the keys of the current state once, as Run does when it starts, and returns. It
	// is for [Controller.Claim]. Defaults to none: the source has no state.
	Replay func(ctx context.Context, in *Intake[K]) error
	// Pending reports whether the cache lacks a write of this process to the key's own
	// object. The key is not reconciled while it does.
	Pending func(key K) bool
	// Len returns how many keys the source has now, for Status. Defaults to none: not known.
	Len func() int
}

// Intake receives the keys of a [Source]. Its methods are safe for concurrent use until Run
// of the source has returned.
type Intake[K comparable] struct {
	controller, source string
	add                func(how workqueue.Request, keys ...K)
	deleted            func(keys ...K) // nil: not remembered
	failed             func(err error)
}

// Controller returns the name of the controller.
func (in *Intake[K]) Controller() string { return in.controller }

// Add adds keys that have changed.
func (in *Intake[K]) Add(keys ...K) { in.AddWith(workqueue.Request{}, keys...) }

// AddDeleted adds keys whose objects were deleted. A controller with Options.Claims remembers some
// of them for groups that it claims later.
func (in *Intake[K]) AddDeleted(keys ...K) {
	if in.deleted != nil {
		in.each(keys, in.deleted)
	}
	in.Add(keys...)
}

// AddInitial adds keys that have not changed, with the priority [Initial].
func (in *Intake[K]) AddInitial(keys ...K) {
	in.AddWith(workqueue.Request{Priority: Initial}, keys...)
}

// AddWith adds keys with a priority, a delay or a rate limit.
func (in *Intake[K]) AddWith(how workqueue.Request, keys ...K) {
	in.each(keys, func(keys ...K) { in.add(how, keys...) })
}

// each calls a function with keys. If that panics, it calls it for each key, so that a key that does
// not hash, or whose translation panics, is the only one lost.
func (in *Intake[K]) each(keys []K, do func(keys ...K)) {
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case len(keys) == 1:
			in.Failed(newPanicError(in.controller, "source "+in.source, fmt.Sprintf(": adding %v", keys[0]), p))
		default:
			for i := range keys {
				in.each(keys[i:i+1], do)
			}
		}
	}()
	do(keys...)
}

// Failed reports an event that could not be mapped to keys. The source continues.
func (in *Intake[K]) Failed(err error) { in.failed(err) }

// guard calls f and reports a panic; ok is true if there was none. of says what the panic is about.
func (in *Intake[K]) guard(f func(), of func() string) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			in.Failed(newPanicError(in.controller, "source "+in.source, of(), p))
		}
	}()
	f()
	return true
}

// Map is the source s with other keys: to translates its keys, and from is the inverse of to.
func Map[K, L comparable](s Source[K], to func(K) L, from func(L) K) Source[L] {
	mapped := Source[L]{Name: s.Name, Ready: s.Ready, NotReady: s.NotReady, Len: s.Len}
	if s.Pending != nil {
		mapped.Pending = func(key L) bool { return s.Pending(from(key)) }
	}
	all := func(keys []K) []L {
		translated := make([]L, len(keys))
		for i, key := range keys {
			translated[i] = to(key)
		}
		return translated
	}
	translated := func(in *Intake[L]) *Intake[K] {
		t := &Intake[K]{
			controller: in.controller, source: in.source, failed: in.failed,
			add: func(how workqueue.Request, keys ...K) { in.add(how, all(keys)...) },
		}
		if in.deleted != nil {
			t.deleted = func(keys ...K) { in.deleted(all(keys)...) }
		}
		return t
	}
	mapped.Run = func(ctx context.Context, in *Intake[L]) error { return s.Run(ctx, translated(in)) }
	if s.Replay != nil {
		mapped.Replay = func(ctx context.Context, in *Intake[L]) error { return s.Replay(ctx, translated(in)) }
	}
	return mapped
}

// Channel is a source of the keys that are sent on a channel. It ends when the channel is
// closed. Nothing receives from the channel while the controller does not run or does not
// lead.
func Channel[K comparable](name string, keys <-chan K) Source[K] {
	return Source[K]{Name: name, Run: func(ctx context.Context, in *Intake[K]) error {
		for {
			select {
			case key, ok := <-keys:
				if !ok {
					return nil
				}
				in.Add(key)
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// Every is a source that adds keys once per period with the priority [Initial], for the first
// time after one period. The function calls add for each key.
func Every[K comparable](period time.Duration, keys func(add func(K))) Source[K] {
	return Source[K]{Name: fmt.Sprint("every ", period), Run: func(ctx context.Context, in *Intake[K]) error {
		if period <= 0 {
			return fmt.Errorf("the period is %v; want a positive time", period)
		}
		tick := time.NewTicker(period)
		defer tick.Stop()
		add := func(key K) { in.AddInitial(key) }
		for {
			select {
			case <-tick.C:
				in.guard(func() { keys(add) }, func() string { return "" })
			case <-ctx.Done():
				return nil
			}
		}
	}}
}
