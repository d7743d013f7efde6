package reflector

import (
	"errors"
	"fmt"

	"github.com/tarnproject/tarn/object"
)

// Errors that a caller may act on.
var (
	// ErrRunning is returned by Run and Step while another goroutine is in one of them.
	ErrRunning = errors.New("reflector: already running")
	// ErrStopped is returned by Run and Step after the reflector has stopped.
	ErrStopped = errors.New("reflector: stopped; make a new one")
	// ErrShort is the cause of an [*Error]: the server closed a watch within a second, without
	// an event.
	ErrShort = errors.New("the server closed the watch immediately, without an event")
	// ErrNoBookmark is the cause of an [*Error]: a streaming list did not complete.
	ErrNoBookmark = errors.New("the bookmark that ends the initial events did not arrive")
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

// RewindError is the cause of an [*Error]: the server's history was restored from a backup.
type RewindError struct {
	Seen   object.Mark    // the last mark of the old epoch
	Listed object.Version // the server's version now
}

// Error names both versions.
func (e *RewindError) Error() string {
	return fmt.Sprintf("the server's version went back from %s to %s, as after a restore from a backup; everything is listed and decoded again",
		e.Seen.Version, e.Listed)
}
