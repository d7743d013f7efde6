package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// Options change how a [Controller] works. The zero Options is ready to use: one worker
// and unlimited retries.
type Options[K comparable] struct {
	// Workers is how many keys may be reconciled concurrently. Defaults to 1.
	Workers int

	// Queue configures the queue: back-off, ageing, fairness between groups, metrics.
	// Defaults to the zero workqueue.Options.
	Queue workqueue.Options[K]

	// Claims restricts the controller to keys of groups that [Controller.Claim] has claimed;
	// Queue.Group returns the group of a key. Defaults to false: all keys.
	Claims bool

	// Attempts is how often in a row a key may fail before it is no longer retried until it
	// changes. Defaults to 0: no limit.
	Attempts int

	// Timeout is how long one reconcile may take before its context is cancelled with the
	// cause ErrTimeout. Defaults to 0: no limit.
	Timeout time.Duration

	// Rate limits how many reconciles may start per second.
	// Defaults to 0: no limit.
	Rate float64
	// Burst is how many reconciles may start at once after a pause, with Rate.
	// Defaults to the number of workers.
	Burst int

	// SyncTimeout is how long the sources may take to be ready before Run returns an error
	// with their causes. Attached sources have no limit. Defaults to 0: no limit. No key is reconciled
	// until all sources are ready; Status.NotReady says why they are not, and a warning is logged
	// after 30 seconds and every 10 minutes.
	SyncTimeout time.Duration

	// Grace is how long running reconciles may take to finish during shutdown before their
	// contexts are cancelled. Negative means no time. Defaults to 30 seconds.
	Grace time.Duration

	// Errors is for how many keys the last error is kept, with its reconcile and what that logged,
	// until the key succeeds. Defaults to 100.
	Errors int

	// Recent is how many of the last reconciles are kept for Controller.Inspect, which the console
	// shows. Of each, the first 20 lines are kept that it logged with [Logger] at level info or
	// above, also if Logger below discards them. The controller formats these lines itself: an
	// slog.LogValuer hides what it always hides, but what only the handler of Logger redacts, such
	// as by its ReplaceAttr, is kept as it was logged. Negative means none. Defaults to 256.
	Recent int

	// Observers are called around each reconcile: in order before it, and in reverse order
	// after it. Defaults to none.
	Observers []Observer

	// Logger receives failed reconciles as warnings, those that are not retried as errors,
	// and each reconcile at debug level. Defaults to none.
	Logger *slog.Logger
}

func (o Options[K]) validate() error {
	switch {
	case o.Workers < 0:
		return fmt.Errorf("controller: Workers is %d; want a positive number, or 0 for one", o.Workers)
	case o.Attempts < 0:
		return fmt.Errorf("controller: Attempts is %d; want a positive number, or 0 for any", o.Attempts)
	case o.Timeout < 0:
		return fmt.Errorf("controller: Timeout is %v; want a positive time, or 0 for none", o.Timeout)
	case o.Rate < 0:
		return fmt.Errorf("controller: Rate is %v; want a positive number, or 0 for any", o.Rate)
	case o.Burst < 0:
		return fmt.Errorf("controller: Burst is %d; want a positive number, or 0 for the default", o.Burst)
	case o.Burst > 0 && o.Rate == 0:
		return errors.New("controller: Burst requires Rate")
	case o.Claims && o.Queue.Group == nil:
		return errors.New("controller: Claims requires Queue.Group")
	case o.Errors < 0:
		return fmt.Errorf("controller: Errors is %d; want a positive number, or 0 for the default", o.Errors)
	}
	return nil
}

func (o Options[K]) withDefaults() Options[K] {
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Burst == 0 {
		o.Burst = o.Workers
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.Errors == 0 {
		o.Errors = 100
	}
	if o.Recent == 0 {
		o.Recent = 256
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
