package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// scope is the context of one reconcile. It collects its writes, after those of earlier reconciles that are not
// settled, and what it logs.
type scope[K comparable] struct {
	context.Context
	log     *slog.Logger
	keep    bool // what is logged is kept in lines
	lines   logLines
	key     K
	attempt int

	mu     sync.Mutex // guards writes
	writes []write
}

// write is a write that a cache may not have yet.
type write struct {
	to  cache
	key object.Key
}

// stale returns the error for a cache that lacks the write.
func (w write) stale() error { return fmt.Errorf("%s %s: %w", w.to.name(), w.key, ErrStaleCache) }

// cache reports whether it lacks a write to a key, and whether it may lack one later.
type cache interface {
	pending(key object.Key) bool
	settled(key object.Key) bool
	holds(inf any) bool // it is that of the informer
	name() string
}

// reconciling is the reconcile that a context belongs to, for any type of key.
type reconciling interface {
	wrote(w write)
	madeWrites() []write
	number() int
	logger() *slog.Logger
}

type scopeKey struct{}

// Value implements [context.Context].
func (s *scope[K]) Value(key any) any {
	if key == (scopeKey{}) {
		return reconciling(s)
	}
	return s.Context.Value(key)
}

func (s *scope[K]) wrote(w write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, w)
}

// madeWrites returns the writes so far, and those of earlier reconciles that were not settled when it began. Only wrote appends to them.
func (s *scope[K]) madeWrites() []write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *scope[K]) number() int { return s.attempt }

func (s *scope[K]) logger() *slog.Logger {
	log := s.log.With("key", fmt.Sprint(s.key), "attempt", s.attempt)
	if s.keep {
		return slog.New(keeper{next: log.Handler(), lines: &s.lines})
	}
	return log
}

func (s *scope[K]) attrs(took time.Duration) []slog.Attr {
	return []slog.Attr{slog.String("key", fmt.Sprint(s.key)), slog.Int("attempt", s.attempt), slog.Duration("duration", took)}
}

// Attempt returns the number of consecutive attempts of the reconcile that the context
// belongs to, starting at 1. It returns 0 for other contexts.
func Attempt(ctx context.Context) int {
	if s, ok := ctx.Value(scopeKey{}).(reconciling); ok {
		return s.number()
	}
	return 0
}

// Logger returns the controller's logger with the key and attempt of the reconcile that the
// context belongs to. Records that are logged without a context, as by Logger(ctx).Info, get
// ctx, so that a handler can read a trace id from it. For other contexts it discards everything.
func Logger(ctx context.Context) *slog.Logger {
	if s, ok := ctx.Value(scopeKey{}).(reconciling); ok {
		return slog.New(inContext{s.logger().Handler(), ctx})
	}
	return slog.New(slog.DiscardHandler)
}

// inContext passes ctx to a handler instead of the background context.
type inContext struct {
	slog.Handler
	ctx context.Context
}

func (h inContext) in(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return h.ctx
	}
	return ctx
}

// Enabled implements [slog.Handler].
func (h inContext) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(h.in(ctx), l)
}

// Handle implements [slog.Handler].
func (h inContext) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(h.in(ctx), r)
}

// WithAttrs implements [slog.Handler].
func (h inContext) WithAttrs(attrs []slog.Attr) slog.Handler {
	return inContext{h.Handler.WithAttrs(attrs), h.ctx}
}

// WithGroup implements [slog.Handler].
func (h inContext) WithGroup(name string) slog.Handler {
	return inContext{h.Handler.WithGroup(name), h.ctx}
}
