// Package recorded runs parts of a test and records how they fail, instead of failing the test. [T] is the
// testing.TB of one run.
package recorded

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// T is the TB of one run of an exploration. It records failures instead of failing
// the test, so that Explore can report them together with the schedule.
type T struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest
	failed   bool
	Stuck    bool // a program did not return
	skipped  bool
	lines    []string
	cleanups []func()
}

// Text returns what the run reported if it failed.
func (t *T) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failed {
		return ""
	}
	return strings.Join(t.lines, "\n")
}

// Do calls f in a goroutine, so that Fatal can end it, and records a panic.
func (t *T) Do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

// New returns a TB whose context ends after a limit.
func New(t testing.TB, limit time.Duration) *T {
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test took longer than ExploreOptions.Limit, %v", limit))
	return &T{TB: t, ctx: ctx, cancel: cancel}
}

// Context implements [testing.TB]. The context ends at the limit, or before the cleanups run.
func (t *T) Context() context.Context { return t.ctx }

// End ends the context and runs the cleanups, the last one first.
func (t *T) End() {
	t.cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups) - 1
		if n < 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n]
		t.cleanups = t.cleanups[:n]
		t.mu.Unlock()
		t.Do(f)
	}
}

// Cleanup implements [testing.TB].
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *T) add(failed bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = t.failed || failed
	if text = strings.TrimSuffix(text, "\n"); text != "" {
		t.lines = append(t.lines, text)
	}
}

// Leaked records that a program did not return.
func (t *T) Leaked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Stuck = true
}

// Log implements [testing.TB].
func (t *T) Log(args ...any) { t.add(false, fmt.Sprintln(args...)) }

// Logf implements [testing.TB].
func (t *T) Logf(format string, args ...any) { t.add(false, fmt.Sprintf(format, args...)) }

// Fail implements [testing.TB].
func (t *T) Fail() { t.add(true, "") }

// FailNow implements [testing.TB].
func (t *T) FailNow() {
	t.Fail()
	runtime.Goexit()
}

// Error implements [testing.TB].
func (t *T) Error(args ...any) { t.add(true, fmt.Sprintln(args...)) }

// Errorf implements [testing.TB].
func (t *T) Errorf(format string, args ...any) { t.add(true, fmt.Sprintf(format, args...)) }

// Fatal implements [testing.TB].
func (t *T) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf implements [testing.TB].
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Failed implements [testing.TB].
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Skip implements [testing.TB].
func (t *T) Skip(args ...any) {
	t.Log(args...)
	t.SkipNow()
}

// Skipf implements [testing.TB].
func (t *T) Skipf(format string, args ...any) {
	t.Logf(format, args...)
	t.SkipNow()
}

// SkipNow implements [testing.TB].
func (t *T) SkipNow() {
	t.mu.Lock()
	t.skipped = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Skipped implements [testing.TB].
func (t *T) Skipped() bool { return t.SkipReason() != "" }

// SkipReason returns what the test logged if it skipped the rest of itself.
func (t *T) SkipReason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.skipped || t.failed {
		return ""
	}
	return cmp.Or(strings.Join(t.lines, "\n"), "skipped")
}
