package apiserver

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

// exploredT is the TB of one run of an exploration. It records failures instead of failing
// the test, so that Explore can report them together with the schedule.
type exploredT struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest
	failed   bool
	stuck    bool // a program did not return
	skipped  bool
	lines    []string
	cleanups []func()
}

// text returns what the run reported if it failed.
func (t *exploredT) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failed {
		return ""
	}
	return strings.Join(t.lines, "\n")
}

// do calls f in a goroutine, so that Fatal can end it, and records a panic.
func (t *exploredT) do(f func()) {
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

func newExploredT(t testing.TB, limit time.Duration) *exploredT {
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test took longer than ExploreOptions.Limit, %v", limit))
	return &exploredT{TB: t, ctx: ctx, cancel: cancel}
}

// Context implements [testing.TB]. The context ends at the limit, or before the cleanups run.
func (t *exploredT) Context() context.Context { return t.ctx }

// end ends the context and runs the cleanups, the last one first.
func (t *exploredT) end() {
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
		t.do(f)
	}
}

// Cleanup implements [testing.TB].
func (t *exploredT) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *exploredT) add(failed bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = t.failed || failed
	if text = strings.TrimSuffix(text, "\n"); text != "" {
		t.lines = append(t.lines, text)
	}
}

// leaked records that a program did not return.
func (t *exploredT) leaked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = true
}

// Log implements [testing.TB].
func (t *exploredT) Log(args ...any) { t.add(false, fmt.Sprintln(args...)) }

// Logf implements [testing.TB].
func (t *exploredT) Logf(format string, args ...any) { t.add(false, fmt.Sprintf(format, args...)) }

// Fail implements [testing.TB].
func (t *exploredT) Fail() { t.add(true, "") }

// FailNow implements [testing.TB].
func (t *exploredT) FailNow() {
	t.Fail()
	runtime.Goexit()
}

// Error implements [testing.TB].
func (t *exploredT) Error(args ...any) { t.add(true, fmt.Sprintln(args...)) }

// Errorf implements [testing.TB].
func (t *exploredT) Errorf(format string, args ...any) { t.add(true, fmt.Sprintf(format, args...)) }

// Fatal implements [testing.TB].
func (t *exploredT) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf implements [testing.TB].
func (t *exploredT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Failed implements [testing.TB].
func (t *exploredT) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Skip implements [testing.TB].
func (t *exploredT) Skip(args ...any) {
	t.Log(args...)
	t.SkipNow()
}

// Skipf implements [testing.TB].
func (t *exploredT) Skipf(format string, args ...any) {
	t.Logf(format, args...)
	t.SkipNow()
}

// SkipNow implements [testing.TB].
func (t *exploredT) SkipNow() {
	t.mu.Lock()
	t.skipped = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Skipped implements [testing.TB].
func (t *exploredT) Skipped() bool { return t.skipReason() != "" }

// skipReason returns what the test logged if it skipped the rest of itself.
func (t *exploredT) skipReason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.skipped || t.failed {
		return ""
	}
	return cmp.Or(strings.Join(t.lines, "\n"), "skipped")
}
