package controller_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/tarnproject/tarn/controller"
)

// An observer is called around each reconcile. Packages console/metrics and console/tracing have
// observers for Prometheus and OpenTelemetry.
func ExampleObserver() {
	type traceKey struct{}
	observer := func(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
		ctx = context.WithValue(ctx, traceKey{}, "trace-1")
		return ctx, func(end controller.ReconcileEnd) {
			fmt.Printf("%s %v, attempt %d: %s, failure %v\n", start.Controller, start.Key, start.Attempt, end.Outcome, end.Outcome.Failure())
		}
	}
	keys, done := make(chan string, 1), make(chan struct{})
	c, _ := controller.New("example", func(ctx context.Context, key string) (controller.Result, error) {
		fmt.Println("reconcile in", ctx.Value(traceKey{}))
		close(done)
		return controller.Result{}, nil
	}, controller.Options[string]{Observers: []controller.Observer{observer}}, controller.Channel("keys", keys))
	ctx, stop := context.WithCancel(context.Background())
	keys <- "shop/web"
	go func() { <-done; stop() }()
	_ = controller.Run(ctx, c)
	// Output:
	// reconcile in trace-1
	// example shop/web, attempt 1: success, failure false
}

// A program that logs with logr passes its logger as a slog handler.
func ExampleOptions_logr() {
	log := funcr.New(func(_, args string) { fmt.Println(args) }, funcr.Options{})
	opts := controller.Options[string]{Logger: slog.New(logr.ToSlogHandler(log))}

	opts.Logger.Info("ready", "workers", 4)
	// Output: "level"=0 "msg"="ready" "workers"=4
}
