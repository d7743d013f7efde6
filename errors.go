package tarn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// What a caller may act on.
var (
	// ErrStarted is returned by Run when it has been called before.
	ErrStarted = errors.New("tarn: the cluster has run before; connect again")
	// ErrNotStarted is among the causes when something is not synced because nobody has
	// called Run.
	ErrNotStarted = errors.New("tarn: Cluster.Run has not been called")
	// ErrStopped is returned, or is the cause, when the cluster's Run has ended.
	ErrStopped = errors.New("tarn: the cluster's Run has ended; connect again")
)

// ConflictError says that two places ask for the same mirror and want different things
// to be in it.
type ConflictError struct {
	// Mirror is its name.
	Mirror string
	// What they differ in: "dropped fields" or "transform".
	What string
	// Here is the file and line that was refused, and Wants what it asks for.
	Here, Wants string
	// There is the file and line that the mirror was declared by, and Has what it has.
	There, Has string
}

// Error names both places and what each wants.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("tarn: %s: %s and %s share one mirror but differ in its %s: %s and %s; make them agree, or give one of them another scope or form",
		e.Mirror, e.Here, e.There, e.What, e.Wants, e.Has)
}

// NotServedError says that the server does not have a resource, yet or any more: its
// CustomResourceDefinition is missing, say. It is the cause of a mirror that waits.
type NotServedError struct {
	// Resource is what is waited for.
	Resource object.Resource
	// Err is what the server said.
	Err error
}

// Error says what is waited for.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("waiting for the resource %s to be served in version %s: %v", e.Resource, e.Resource.Version, e.Err)
}

// Unwrap returns what the server said, an API error for which apierrors.IsNotFound holds.
func (e *NotServedError) Unwrap() error { return e.Err }

// NotSyncedError says which mirrors had not got their state when a wait for them ended.
type NotSyncedError struct {
	// Cause is why the wait ended: the context's cause, [ErrStopped], or what ended Run.
	Cause error
	// Mirrors are those that are missing, each with its sources and their causes.
	Mirrors []*informer.NotSyncedError
}

// Error names each source with its state and cause.
func (e *NotSyncedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tarn: not synced: %v", e.Cause)
	for _, m := range e.Mirrors {
		for i := range m.Sources {
			fmt.Fprintf(&b, "; %s", m.Sources[i])
		}
	}
	return b.String()
}

// Unwrap returns why the wait ended, and for each mirror what keeps it.
func (e *NotSyncedError) Unwrap() []error {
	errs := []error{e.Cause}
	for _, m := range e.Mirrors {
		errs = append(errs, m)
	}
	return errs
}
