package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// Initial is the priority of keys that are looked at for completeness, not because
// something happened: the state at the start, resyncs, what [Every] adds.
const Initial = -100

// Source says which keys a controller is to look at. It is a value of functions; all but
// Run may be nil. One source may serve several controllers, and several runs of each.
type Source[K comparable] struct {
	// Name is what it is called in errors.
	Name string
	// Ready waits until what reconciles will read is there. Workers begin when all
	// sources are ready.
	Ready func(ctx context.Context) error
	// Run adds keys until the context is done, and returns when its last goroutine has
	// ended. An error before that ends the controller.
	Run func(ctx context.Context, in *Intake[K]) error
	// Pending reports whether a mirror lacks a write of this process to the key's own
	// object. While it does the key is not reconciled.
	Pending func(key K) bool
}

// Intake is a controller's end of a [Source]. Its methods may be called from any
// goroutine, until Run of the source has returned.
type Intake[K comparable] struct {
	controller, source string
	queue              *workqueue.Queue[K]
	failures           *atomic.Uint64
	report             func(err error)
}

// Controller returns the name of the controller.
func (in *Intake[K]) Controller() string { return in.controller }

// Add adds keys of which something has changed.
func (in *Intake[K]) Add(keys ...K) { in.queue.AddWith(workqueue.Request{}, keys...) }

// AddInitial adds keys that are to be looked at some time.
func (in *Intake[K]) AddInitial(keys ...K) {
	in.queue.AddWith(workqueue.Request{Priority: Initial}, keys...)
}

// AddWith adds keys in any way a queue knows.
func (in *Intake[K]) AddWith(how workqueue.Request, keys ...K) { in.queue.AddWith(how, keys...) }

// Failed reports that something could not be turned into keys. The source goes on.
func (in *Intake[K]) Failed(err error) {
	in.failures.Add(1)
	in.report(err)
}

// guard calls f and reports its panic; ok tells that there was none.
func (in *Intake[K]) guard(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			in.Failed(newPanicError(in.controller, "source "+in.source, p))
		}
	}()
	f()
	return true
}

// Channel is a source of the keys that are sent on a channel. It ends when the channel
// is closed. While the controller does not run, or does not lead, nobody receives.
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

// Every is a source that adds keys once in a period, with the priority [Initial]; the
// first time is after one period. The function calls add for each key.
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
				in.guard(func() { keys(add) })
			case <-ctx.Done():
				return nil
			}
		}
	}}
}
