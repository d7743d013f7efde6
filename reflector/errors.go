package reflector

import (
	"errors"
	"fmt"

	"github.com/tarnproject/tarn/object"
)

// What a caller may act on.
var (
	// ErrRunning is returned by Run and Step while another of them runs.
	ErrRunning = errors.New("reflector: already running")
	// ErrStopped is returned by Run and Step after the reflector has stopped.
	ErrStopped = errors.New("reflector: stopped; make a new one")
	// ErrShort is the cause of an [*Error]: a watch was closed within a second without
	// an event.
	ErrShort = errors.New("the watch was closed at once, without an event")
	// ErrNoBookmark is the cause of an [*Error]: a streaming list did not come to its end.
	ErrNoBookmark = errors.New("the bookmark that ends the initial events did not come")
)

// Error is a failed request, as Options.OnError and Status.Cause have it.
type Error struct {
	Name   string // of the reflector
	Op     string // "list", "streaming list" or "watch"
	Reason Reason
	Err    error
}

// Error says what failed, and why.
func (e *Error) Error() string { return fmt.Sprintf("reflector %s: %s: %v", e.Name, e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RewindError is the cause of an [*Error] that tells of a server whose history began
// anew.
type RewindError struct {
	Seen   object.Mark    // the last mark of the old epoch
	Listed object.Version // what the server's version is now
}

// Error says what was seen.
func (e *RewindError) Error() string {
	return fmt.Sprintf("the server's version went back from %s to %s, as after a restore from a backup; everything is listed afresh",
		e.Seen.Version, e.Listed)
}
