package managertest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// now is the logger of the latest manager. controller-runtime has one log per process, which can be set once, and
// its cache and its clients use that.
var now atomic.Pointer[slog.Logger]

var setOnce = sync.OnceFunc(func() { ctrl.SetLogger(logr.FromSlogHandler(latest{})) })

func setLog(logger *slog.Logger) {
	now.Store(logger)
	setOnce()
}

// latest is a handler that passes on to the latest logger.
type latest struct {
	with func(slog.Handler) slog.Handler // adds attributes and groups; nil for none
}

func (l latest) handler() slog.Handler {
	h := now.Load().Handler()
	if l.with != nil {
		h = l.with(h)
	}
	return h
}

func (l latest) and(with func(slog.Handler) slog.Handler) slog.Handler {
	return latest{func(h slog.Handler) slog.Handler {
		if l.with != nil {
			h = l.with(h)
		}
		return with(h)
	}}
}

// Enabled implements slog.Handler.
func (l latest) Enabled(ctx context.Context, level slog.Level) bool {
	return l.handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l latest) Handle(ctx context.Context, r slog.Record) error { return l.handler().Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (l latest) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l latest) WithGroup(name string) slog.Handler {
	return l.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
