package controller

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// Errors that callers may compare against.
var (
	// ErrNotLeading is wrapped by every error of a [Fence].
	ErrNotLeading = errors.New("controller: this process does not lead")
	// ErrStaleCache means that a cache is older than this process's own write. A reconcile
	// that returns it is retried after 5 ms, then with doubling delays up to one second.
	// Status lists its key, and a warning is logged after half a minute.
	ErrStaleCache = errors.New("controller: the cache is older than this process's own write")
	// ErrNotSynced is wrapped by the error of a read from a cache that is not synced, beside its cause. A
	// reconcile that returns it is retried like one that returns ErrStaleCache.
	ErrNotSynced = errors.New("controller: the cache is not synced")
	// ErrStillRunning is wrapped by the error of a run that ended although a reconcile has not returned.
	// A leader keeps its lease then, until that expires.
	ErrStillRunning = errors.New("controller: reconciles have not returned")
	// ErrTimeout is the cause of a reconcile's context when Options.Timeout has passed.
	ErrTimeout = errors.New("controller: the reconcile took longer than Options.Timeout")
	// ErrStopping is the cause of a reconcile's context when Options.Grace has passed.
	ErrStopping = errors.New("controller: stopping, and Options.Grace has passed")
)

// UnfinishedError reports the keys that were not reconciled when a controller's grace period
// ended.
type UnfinishedError[K comparable] struct {
	// Controller is the controller's name.
	Controller string
	// Waiting are the keys that still had to be reconciled, for the first time or again.
	Waiting []K
	// Running are the keys whose reconcile has not returned although its context was
	// cancelled. Their goroutines still run.
	Running []K
}

// Error names the first few keys of each list.
func (e *UnfinishedError[K]) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "controller %s: ended with", e.Controller)
	list := func(what string, keys []K) {
		if len(keys) == 0 {
			return
		}
		fmt.Fprintf(&b, " %d %s (", len(keys), what)
		for i, key := range keys {
			switch {
			case i == 10:
				fmt.Fprintf(&b, ", and %d more)", len(keys)-i)
				return
			case i > 0:
				b.WriteString(", ")
			}
			fmt.Fprint(&b, key)
		}
		b.WriteString(")")
	}
	list("still waiting", e.Waiting)
	list("that did not stop", e.Running)
	return b.String()
}

// Is reports whether the target is [ErrStillRunning] and reconciles have not returned.
func (e *UnfinishedError[K]) Is(target error) bool {
	return target == ErrStillRunning && len(e.Running) > 0
}

// PanicError reports a panic in a reconcile or in another function of the program.
type PanicError struct {
	object.PanicError
	// Controller is the controller's name.
	Controller string
	// Function names the function, such as "Queue.Group" or "source pods", but no key; "" for the reconcile.
	Function string
	// Where is the key that was reconciled, or the function and what it was called for.
	Where string
}

// newPanicError is called while the goroutine panics, so that it records its stack. of says what the function was
// called for.
func newPanicError(controller, function, of string, value any) *PanicError {
	return &PanicError{
		PanicError: object.PanicError{Value: value, Stack: debug.Stack()},
		Controller: controller, Function: function, Where: function + of,
	}
}

// Error names the controller, the key or source, and the panic's value.
func (e *PanicError) Error() string {
	return fmt.Sprintf("controller %s: panic in %s: %v", e.Controller, e.Where, e.Value)
}

// Unwrap returns the embedded error, never the panic's value.
func (e *PanicError) Unwrap() error { return &e.PanicError }
