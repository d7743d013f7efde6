package object

import (
	"errors"
	"fmt"
)

// Page is the metadata of one page of a list.
type Page struct {
	// Version is the version of the whole list.
	Version Version
	// Continue is the token for the next page; empty on the last one.
	Continue string
	// Remaining is the server's count of items after this page, 0 if it sends none.
	Remaining int64
	// Sharded is true if the server confirmed that it applied the requested Shard.
	Sharded bool
}

// Stream is an open watch. Only one goroutine at a time may call Next. Close is safe for
// concurrent use and may be called more than once.
type Stream[T any] interface {
	// Next blocks until at least one event has arrived and returns all that have, in the
	// server's order. They are valid until the next call. The error is io.EOF if the server
	// ended the stream normally. After an error every call returns one.
	Next() ([]Event[T], error)
	// Close ends the stream, frees its resources and unblocks Next.
	Close() error
}

// Errors of lists and watches besides those of the API (*apierrors.StatusError) and of the
// network. Test for them with errors.Is.
var (
	// ErrCorrupt means that the response violates the protocol: a truncated body, an invalid
	// or overlong frame, invalid JSON.
	ErrCorrupt = errors.New("corrupt response")
	// ErrWrongKind means that the server sent another kind than requested.
	ErrWrongKind = errors.New("wrong kind")
	// ErrIdle means that a stream was silent for longer than its deadline.
	ErrIdle = errors.New("stream went silent")
)

// WrongKindError is an [ErrWrongKind] with both kinds.
type WrongKindError struct {
	Want, Got string // "apiVersion, Kind=kind" or what is known of it
}

// Error names both kinds.
func (e *WrongKindError) Error() string {
	return fmt.Sprintf("%v: the server sent %q where %q was asked for", ErrWrongKind, e.Got, e.Want)
}

// Is reports whether target is [ErrWrongKind].
func (e *WrongKindError) Is(target error) bool { return target == ErrWrongKind }
