package wire

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// Observer is called before each attempt of a request is sent, for metrics and tracing. It
// returns the context of the attempt, which is ctx or derived from it, and a function that is
// called with the outcome, or nil.
//
// A list ends when its body is closed; any other stream, when its headers have arrived. All other
// requests end when the response has been read.
//
// An observer is called on the goroutine of the request and its function possibly on that
// which closes the body, for many requests at the same time. Both must be fast. A panic is logged
// and does not affect the request.
type Observer func(ctx context.Context, start AttemptStart) (context.Context, func(AttemptEnd))

// AttemptStart describes an attempt that is about to be sent.
type AttemptStart struct {
	Call Call
	// Method is the HTTP method.
	Method string
	// Host is the server's host and port.
	Host string
	// Attempt is the number of the attempt, starting at 1.
	Attempt int
}

// AttemptEnd describes an attempt that has ended.
type AttemptEnd struct {
	// Code is the HTTP status; 0 without a response.
	Code int
	// Err is the error of the attempt: an [*Error] or a [*TransportError], or for the body of
	// a list that of its last read. It contains no credentials.
	Err      error
	Duration time.Duration
}

// observation is an attempt and the observers that wait for its end. The goroutine that ends it
// writes to it last.
type observation struct {
	ends  []func(AttemptEnd)
	log   *slog.Logger
	begin time.Time
	code  int
	later bool // the body ends it
}

// observe calls the observers in order. It returns nil if there are none.
func observe(ctx context.Context, observers []Observer, start AttemptStart, log *slog.Logger) (context.Context, *observation) {
	if len(observers) == 0 {
		return ctx, nil
	}
	o := &observation{ends: make([]func(AttemptEnd), len(observers)), log: log}
	for i, observer := range observers {
		o.guard(func() {
			derived, end := observer(ctx, start)
			ctx, o.ends[i] = derived, end
		})
	}
	o.begin = time.Now()
	return ctx, o
}

// end calls the ends of the observers in reverse order.
func (o *observation) end(err error) {
	e := AttemptEnd{Code: o.code, Err: err, Duration: time.Since(o.begin)}
	for i := len(o.ends) - 1; i >= 0; i-- {
		if o.ends[i] != nil {
			o.guard(func() { o.ends[i](e) })
		}
	}
}

// guard calls a function of an observer and logs its panic.
func (o *observation) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			o.log.Error("an observer of requests panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}
