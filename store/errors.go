package store

import (
	"fmt"

	"github.com/tarnproject/tarn/object"
)

// ObjectError is the error for an object that could not be stored.
type ObjectError struct {
	Key   object.Key
	Cause error
}

// Error names the object and the cause.
func (e *ObjectError) Error() string { return fmt.Sprintf("store: object %q: %v", e.Key, e.Cause) }

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Cause }

// IndexError is the error for an object that an index function failed on.
type IndexError struct {
	Key   object.Key
	Index string
	Cause error
}

// Error names the object, the index and the cause.
func (e *IndexError) Error() string {
	return fmt.Sprintf("store: object %q in index %q: %v", e.Key, e.Index, e.Cause)
}

// Unwrap returns the cause.
func (e *IndexError) Unwrap() error { return e.Cause }
