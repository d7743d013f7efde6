package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/workqueue"
)

// mailer runs a controller of a channel of keys. Failed keys are retried after an hour.
func mailer(opts controller.Options[string], reconcile controller.Func[string]) (c *controller.Controller[string], keys chan<- string, end func()) {
	in := make(chan string)
	opts.Queue.Limiter = workqueue.NewExponential[string](time.Hour, time.Hour)
	c, err := controller.New("mail", reconcile, opts, controller.Channel("keys", in))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return c, in, func() {
		stop()
		if err := <-done; err != nil {
			fmt.Println(err)
		}
	}
}

// Status says what runs, and what does not and why.
func ExampleController_Status() {
	begun, finish := make(chan struct{}), make(chan struct{})
	c, keys, end := mailer(controller.Options[string]{}, func(_ context.Context, key string) (controller.Result, error) {
		switch key {
		case "unknown@example.com":
			return controller.Result{}, errors.New("no such user")
		case "new@example.com":
			return controller.Result{}, controller.ErrStaleCache
		}
		close(begun)
		<-finish
		return controller.Result{}, nil
	})
	for _, key := range []string{"unknown@example.com", "new@example.com", "a@example.com"} {
		keys <- key
	}
	<-begun // the only worker is past the first two
	s := c.Status()
	fmt.Println("working:", s.State == controller.Working)
	for _, r := range s.Running {
		fmt.Println(r.Key, "is reconciled, attempt", r.Attempt)
	}
	for _, h := range s.HeldKeys {
		fmt.Println(h.Key, "is held back:", h.Err)
	}
	for _, f := range s.Failures {
		fmt.Println(f.Key, "failed:", f.Err)
	}
	fmt.Println("durations of at least two reconciles:", s.Latency.Count >= 2)
	close(finish)
	end()
	// Output:
	// working: true
	// a@example.com is reconciled, attempt 1
	// new@example.com is held back: controller: the cache is older than this process's own write
	// unknown@example.com failed: no such user
	// durations of at least two reconciles: true
}

// Inspect says what became of one key, and Retry does not wait out its back-off.
func ExampleController_Inspect() {
	ends := make(chan controller.Outcome)
	observer := func(ctx context.Context, _ controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
		return ctx, func(e controller.ReconcileEnd) { ends <- e.Outcome }
	}
	c, keys, end := mailer(controller.Options[string]{Observers: []controller.Observer{observer}},
		func(ctx context.Context, key string) (controller.Result, error) {
			if controller.Attempt(ctx) == 1 {
				controller.Logger(ctx).Info("connecting", "server", "mail.example.com")
				return controller.Result{}, errors.New("mailbox full")
			}
			return controller.Result{}, nil
		})
	defer end()
	keys <- "a@example.com"
	<-ends
	k := c.Inspect("a@example.com")
	fmt.Println("next attempt:", k.Attempt, "in about an hour:", time.Until(k.Due) > 50*time.Minute, k.Failure.Err)
	for _, r := range k.Recent {
		fmt.Println(r.Attempt, r.Outcome, r.Log)
	}
	if err := c.Retry("a@example.com"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-ends)
	// Output:
	// next attempt: 2 in about an hour: true mailbox full
	// 1 error [INFO connecting server=mail.example.com]
	// success
}

// A paused controller keeps collecting keys, for example during a migration.
func ExampleController_Pause() {
	reconciled := make(chan string)
	c, keys, end := mailer(controller.Options[string]{}, func(_ context.Context, key string) (controller.Result, error) {
		reconciled <- key
		return controller.Result{}, nil
	})
	defer end()
	c.Pause()
	keys <- "a@example.com"
	fmt.Println("paused:", c.Status().Paused)
	c.Resume()
	fmt.Println(<-reconciled)
	// Output:
	// paused: true
	// a@example.com
}

// The cause of the context says why a reconcile should return.
func ExampleOptions_timeout() {
	causes := make(chan error)
	_, keys, end := mailer(controller.Options[string]{Timeout: time.Millisecond}, func(ctx context.Context, key string) (controller.Result, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return controller.Result{}, ctx.Err()
	})
	defer end()
	keys <- "a@example.com"
	if cause := <-causes; cause == controller.ErrTimeout {
		fmt.Println(cause)
	}
	// Output: controller: the reconcile took longer than Options.Timeout
}

// A panic is a failed reconcile. Here it is reported to an error tracker.
func ExamplePanicError() {
	reported := make(chan *controller.PanicError)
	observer := func(ctx context.Context, _ controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
		return ctx, func(e controller.ReconcileEnd) {
			if p := (*controller.PanicError)(nil); errors.As(e.Err, &p) {
				reported <- p
			}
		}
	}
	_, keys, end := mailer(controller.Options[string]{Observers: []controller.Observer{observer}},
		func(context.Context, string) (controller.Result, error) { panic("not implemented") })
	defer end()
	keys <- "a@example.com"
	p := <-reported
	fmt.Println(p.Controller, p.Where, p.Value, len(p.Stack) > 0)
	// Output: mail a@example.com not implemented true
}
