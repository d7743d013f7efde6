package shard

import (
	"context"
	"log/slog"
)

// logQueue is a handler that passes records on in a goroutine of its own: a slow handler must not delay a renewal,
// nor a caller that waits for the group's lock.
type logQueue struct {
	slog.Handler
	records chan func()
}

func newLogQueue(next slog.Handler) *logQueue { return &logQueue{next, make(chan func(), 1024)} }

// Handle implements [slog.Handler]. It drops the record if very many wait.
func (q *logQueue) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	select {
	case q.records <- func() {
		defer func() { _ = recover() }() // the handler is the program's, and there is no other to report to
		_ = q.Handler.Handle(ctx, r)     // slog ignores the error, too
	}:
	default:
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (q *logQueue) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logQueue{q.Handler.WithAttrs(attrs), q.records}
}

// WithGroup implements [slog.Handler].
func (q *logQueue) WithGroup(name string) slog.Handler {
	return &logQueue{q.Handler.WithGroup(name), q.records}
}

// start passes records on until the returned function is called, which waits for those that are left.
func (q *logQueue) start() (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pass := <-q.records; pass != nil; pass = <-q.records {
			pass()
		}
	}()
	return func() {
		q.records <- nil // the end
		<-done
	}
}
