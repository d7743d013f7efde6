package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tarnproject/tarn/controller"
)

// A controller waits for its sources, and its status says why.
func ExampleSource_notReady() {
	disk := controller.Source[string]{
		Name:     "disk",
		Ready:    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		NotReady: func() error { return errors.New("not mounted") },
		Run:      func(ctx context.Context, _ *controller.Intake[string]) error { <-ctx.Done(); return nil },
	}
	c, err := controller.New("files", func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil },
		controller.Options[string]{}, disk)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for c.Status().NotReady == nil {
		runtime.Gosched()
	}
	s := c.Status()
	fmt.Println(s.State, s.NotReady, s.FunctionPanics, s.LastFunctionPanic)
	stop()
	fmt.Println(<-done)
	// Output:
	// starting source disk: not mounted 0 <nil>
	// <nil>
}

// A process that must not exit while a reconcile runs can tell.
func ExampleUnfinishedError_Is() {
	err := fmt.Errorf("run: %w", &controller.UnfinishedError[string]{Controller: "web", Running: []string{"shop/a"}})
	fmt.Println(errors.Is(err, controller.ErrStillRunning), errors.Is(err, controller.ErrNotSynced))
	// Output: true false
}
