// Package patience has the waits of tests on real servers: they poll a condition, for as long
// as a busy machine may need.
package patience

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Limit is how long anything may take on a busy machine.
const Limit = 2 * time.Minute

// Context returns a context that ends with the test or after Limit.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Until polls until holds returns true.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := Context(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// For polls until check returns nil, and returns its last error if it never does. It is for
// goroutines other than the test's own.
func For(ctx context.Context, what string, check func() error) error {
	return ForUpTo(ctx, Limit, what, check)
}

// ForUpTo is For with another limit.
func ForUpTo(ctx context.Context, limit time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-tick.C:
		}
	}
}

// Linger lets time pass, for what must last a while.
func Linger(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
