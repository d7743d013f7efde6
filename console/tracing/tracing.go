package tracing

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Tracer starts and ends spans. Create one with [New]. Its methods are observers for any number
// of controllers and clients and are safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer that uses a provider, such as otel.GetTracerProvider().
func New(p trace.TracerProvider) *Tracer {
	return &Tracer{p.Tracer("github.com/tarnproject/tarn")}
}

// Reconcile is a [controller.Observer].
func (t *Tracer) Reconcile(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
	attrs := []attribute.KeyValue{
		attribute.String("controller.name", start.Controller),
		attribute.String("controller.key", fmt.Sprint(start.Key)),
		attribute.Int("controller.attempt", start.Attempt),
	}
	if key, ok := start.Key.(object.Key); ok {
		attrs = append(attrs, keyOf(key)...)
	}
	ctx, span := t.tracer.Start(ctx, "reconcile "+start.Controller, trace.WithAttributes(attrs...))
	return ctx, func(end controller.ReconcileEnd) {
		defer span.End()
		span.SetAttributes(attribute.String("controller.outcome", string(end.Outcome)))
		if end.Outcome.Failure() {
			fail(span, end.Err)
		}
	}
}

// Request is a [wire.Observer].
func (t *Tracer) Request(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
	call := start.Call
	name := start.Method // a path would be a name of its own for each object
	attrs := append(keyOf(call.Key), attribute.String("http.request.method", start.Method))
	if call.Path != "" {
		attrs = append(attrs, attribute.String("url.path", call.Path))
	} else {
		name = strings.ToUpper(call.Verb) + " " + call.Resource.String()
		if call.Subresource != "" {
			name += "/" + call.Subresource
		}
	}
	if start.Attempt > 1 {
		attrs = append(attrs, attribute.Int("http.request.resend_count", start.Attempt-1))
	}
	attrs = append(attrs, server(start.Host)...)
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return ctx, func(end wire.AttemptEnd) {
		defer span.End()
		if end.Code != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", end.Code))
		}
		if end.Err != nil {
			fail(span, end.Err)
		}
	}
}

// keyOf returns the attributes of a key, without those that are empty.
func keyOf(key object.Key) (attrs []attribute.KeyValue) {
	if key.Namespace != "" {
		attrs = append(attrs, attribute.String("k8s.namespace.name", key.Namespace))
	}
	if key.Name != "" {
		attrs = append(attrs, attribute.String("k8s.object.name", key.Name))
	}
	return attrs
}

// server returns the attributes of a host with or without a port.
func server(host string) []attribute.KeyValue {
	if name, text, err := net.SplitHostPort(host); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			return []attribute.KeyValue{attribute.String("server.address", name), attribute.Int("server.port", port)}
		}
	}
	return []attribute.KeyValue{attribute.String("server.address", host)}
}

func fail(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
