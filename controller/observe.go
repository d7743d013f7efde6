package controller

import (
	"context"
	"fmt"
	"time"
)

// Observer is called before each reconcile, for metrics and tracing. It returns the context of
// the reconcile, which is ctx or derived from it, and a function that is called with the outcome,
// or nil. Keys that are put back without a reconcile are not observed.
//
// Workers call an observer concurrently, also for controllers that share it, and wait for it, so
// it must be fast. A panic is reported and affects neither the reconcile nor other observers. For one key, the end of a reconcile is observed before the start of the next.
type Observer func(ctx context.Context, start ReconcileStart) (context.Context, func(ReconcileEnd))

// ReconcileStart describes a reconcile that starts.
type ReconcileStart struct {
	// Controller is the controller's name.
	Controller string
	// Key is the key, of the controller's type of keys.
	Key any
	// Attempt counts consecutive attempts of the key, starting at 1.
	Attempt int
}

// ReconcileEnd describes a reconcile that has returned.
type ReconcileEnd struct {
	Outcome Outcome
	// Err is the error of the reconcile, a [*PanicError] if it panicked.
	Err      error
	Duration time.Duration
}

// Outcome classifies a reconcile.
type Outcome string

// The outcomes. The first four have the names that controller-runtime uses.
const (
	// OutcomeSuccess: done until the key changes.
	OutcomeSuccess Outcome = "success"
	// OutcomeRequeue: Result.Requeue was set.
	OutcomeRequeue Outcome = "requeue"
	// OutcomeRequeueAfter: Result.RequeueAfter was set.
	OutcomeRequeueAfter Outcome = "requeue_after"
	// OutcomeError: an error that is reported. The key is retried unless Options.Attempts is
	// reached.
	OutcomeError Outcome = "error"
	// OutcomeTerminal: an error that [Terminal] wraps.
	OutcomeTerminal Outcome = "terminal"
	// OutcomePanic: the reconcile panicked.
	OutcomePanic Outcome = "panic"
	// OutcomeConflict: an optimistic-lock conflict, which is retried and not reported.
	OutcomeConflict Outcome = "conflict"
	// OutcomeStale: the reconcile returned [ErrStaleCache].
	OutcomeStale Outcome = "stale"
	// OutcomeFenced: this process lost leadership, or the grace period of the shutdown passed.
	OutcomeFenced Outcome = "fenced"
)

// Failure reports whether the outcome is a reported error: error, terminal or panic.
func (o Outcome) Failure() bool {
	return o == OutcomeError || o == OutcomeTerminal || o == OutcomePanic
}

func outcomeOf(v verdict, res Result) Outcome {
	switch {
	case v != fine:
		return [...]Outcome{
			final: OutcomeTerminal, panicked: OutcomePanic, failed: OutcomeError,
			conflict: OutcomeConflict, stale: OutcomeStale, fenced: OutcomeFenced,
		}[v]
	case res.Requeue:
		return OutcomeRequeue
	case res.RequeueAfter > 0:
		return OutcomeRequeueAfter
	}
	return OutcomeSuccess
}

// Observers returns an observer that calls several in order, and their ends in reverse. Without
// any it returns nil. If some of them panic, its own end panics with the first of these, a
// [*PanicError], when it has called all of them.
func Observers(all ...Observer) Observer {
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, start ReconcileStart) (context.Context, func(ReconcileEnd)) {
		ends := make([]func(ReconcileEnd), len(all))
		var panicked *PanicError
		caught := func() {
			if p := recover(); p != nil && panicked == nil {
				panicked, _ = p.(*PanicError) // of Observers within these
				if panicked == nil {
					panicked = newPanicError(start.Controller, "an observer", fmt.Sprintf(" of %v", start.Key), p)
				}
			}
		}
		for i, o := range all {
			func() {
				defer caught()
				derived, end := o(ctx, start)
				ctx, ends[i] = derived, end
			}()
		}
		return ctx, func(e ReconcileEnd) {
			for i := len(ends) - 1; i >= 0; i-- {
				if ends[i] != nil {
					func() {
						defer caught()
						ends[i](e)
					}()
				}
			}
			if panicked != nil {
				panic(panicked)
			}
		}
	}
}
