package reflector

import (
	"errors"
	"fmt"
)

var (
	errRunning = errors.New("reflector: already running")
	errStopped = errors.New("reflector: stopped; make a new one")
	errShort   = errors.New("the server closed the watch immediately, without an event")
)

// Error is a failed request, as passed to Options.OnError and found in Status.Cause.
type Error struct {
	Name   string // of the reflector
	Op     string // "list", "streaming list" or "watch"
	Reason Reason
	Err    error
}

// Error says what failed and why.
func (e *Error) Error() string { return fmt.Sprintf("reflector %s: %s: %v", e.Name, e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
