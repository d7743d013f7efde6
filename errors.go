package tarn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Errors that callers may compare against.
var (
	// ErrStarted is returned by the second call of Run.
	ErrStarted = errors.New("tarn: Cluster.Run was called before; connect again")
	// ErrNotStarted is among the causes when a mirror is not synced because Run has not
	// been called.
	ErrNotStarted = errors.New("tarn: Cluster.Run has not been called")
	// ErrStopped is returned, or is the cause, after the cluster's Run has ended.
	ErrStopped = errors.New("tarn: the cluster's Run has ended; connect again")
)

// ConflictError reports that two callers request the same mirror with different contents.
type ConflictError struct {
	// Mirror is the mirror's name.
	Mirror string
	// What is the difference: "dropped fields" or "transform".
	What string
	// Here is the file and line of the refused call, and Wants what it requested.
	Here, Wants string
	// There is the file and line that declared the mirror, and Has what it requested.
	There, Has string
}

// Error names both calls and what each requested.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("tarn: %s: %s and %s share one mirror but differ in its %s: %s and %s; make them agree, or give one of them another scope or form",
		e.Mirror, e.Here, e.There, e.What, e.Wants, e.Has)
}

// NotServedError reports that the server does not serve a resource, for example because its
// CustomResourceDefinition is missing. It is the cause of a mirror that is [Waiting].
type NotServedError struct {
	// Resource is the missing resource.
	Resource object.Resource
	// Err is the server's answer.
	Err error
}

// Error names the resource.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("waiting for the resource %s to be served in version %s: %v", e.Resource, e.Resource.Version, e.Err)
}

// Unwrap returns the server's answer, for which apierrors.IsNotFound is true.
func (e *NotServedError) Unwrap() error { return e.Err }

// NotSyncedError reports the mirrors that were not synced when a wait for them ended.
type NotSyncedError struct {
	// Cause is why the wait ended: the context's cause, [ErrStopped], or what ended Run.
	Cause error
	// Mirrors are those that are not synced, each with its sources and their causes.
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

// Unwrap returns why the wait ended, and the error of each mirror that is not synced.
func (e *NotSyncedError) Unwrap() []error {
	errs := []error{e.Cause}
	for _, m := range e.Mirrors {
		errs = append(errs, m)
	}
	return errs
}
