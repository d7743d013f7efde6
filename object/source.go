package object

import (
	"errors"
	"fmt"
)

// Page is the metadata of one page of a list.
type Page struct {
	// Version is the version of the whole list.
	Version Version
	// Continue asks for the next page; empty on the last one.
	Continue string
	// Remaining is how many items the server says come after this page, 0 when it
	// does not say.
	Remaining int64
}

// Stream is an open watch. One goroutine at a time calls Next; Close may be called
// from any, at any time and more than once.
type Stream[T any] interface {
	// Next waits until something has been received and returns all events that
	// have arrived, at least one, in the order of the server. They are valid until
	// the next call. The error is io.EOF where the server ended the stream in
	// order; after an error every call returns one.
	Next() ([]Event[T], error)
	// Close ends the stream, frees what it holds and makes a waiting Next return.
	Close() error
}

// Errors that a list or a watch ends with besides those of the API (which are
// *apierrors.StatusError) and of the network. Test for them with errors.Is.
var (
	// ErrCorrupt says that the bytes are not what the protocol promises: a
	// truncated body, a broken or overlong frame, invalid JSON.
	ErrCorrupt = errors.New("corrupt response")
	// ErrWrongKind says that the server sent another kind than was asked for.
	ErrWrongKind = errors.New("wrong kind")
	// ErrIdle says that a stream was silent for longer than its deadline.
	ErrIdle = errors.New("stream went silent")
)

// WrongKindError is an [ErrWrongKind] that says which.
type WrongKindError struct {
	Want, Got string // "apiVersion, Kind=kind" or what is known of it
}

// Error names both kinds.
func (e *WrongKindError) Error() string {
	return fmt.Sprintf("%v: the server sent %q where %q was asked for", ErrWrongKind, e.Got, e.Want)
}

// Is reports whether target is [ErrWrongKind].
func (e *WrongKindError) Is(target error) bool { return target == ErrWrongKind }
