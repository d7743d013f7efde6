package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Handler returns a handler that adds trace_id and span_id to the records of h whose context has a
// span. The records of a controller and of controller.Logger have the context of the reconcile.
// In a logger with an open group, the ids are part of the group.
func Handler(h slog.Handler) slog.Handler { return &handler{h} }

type handler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone() // the attributes of a record may be shared with other handlers
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.Handler.WithGroup(name)} }
