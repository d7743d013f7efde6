package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tarnproject/tarn/console/tracing"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/wire"
)

func ExampleTracer() {
	spans := tracetest.NewSpanRecorder() // a program exports them
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	requests := wire.Options{Observers: []wire.Observer{tracer.Request}}
	reconciles := controller.Options[string]{Observers: []controller.Observer{tracer.Reconcile}}

	// The controller and the client do this.
	ctx, reconciled := reconciles.Observers[0](context.Background(), controller.ReconcileStart{Controller: "web", Key: "shop/web", Attempt: 1})
	_, answered := requests.Observers[0](ctx, wire.AttemptStart{Method: "GET", Host: "cluster.example", Attempt: 1, Call: wire.Call{Verb: "get", Path: "/version"}})
	answered(wire.AttemptEnd{Code: 200})
	reconciled(controller.ReconcileEnd{Outcome: controller.OutcomeSuccess})
	for _, s := range spans.Ended() {
		fmt.Println(s.SpanKind(), s.Name())
	}
	// Output:
	// client GET
	// internal reconcile web
}

func ExampleHandler() {
	text := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(tracing.Handler(text))

	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	log.InfoContext(ctx, "scaled", "replicas", 3)
	// Output: level=INFO msg=scaled replicas=3 trace_id=01000000000000000000000000000000 span_id=0200000000000000
}
