package informer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// Errors that a caller may want to handle.
var (
	// ErrStopped is returned, or is the cause of another error, after Run has ended.
	ErrStopped = errors.New("informer: stopped")
	// ErrNotCovered is the cause of errors about an object that the informer does not mirror: it
	// is in another namespace, or its labels or name do not match the selection.
	ErrNotCovered = errors.New("informer: the object is outside the namespaces, the selection or the shard of the informer")
	// ErrNoVersion is returned for a written object without a UID or resource version, which
	// cannot be matched with what the mirror holds.
	ErrNoVersion = errors.New("informer: the object has no UID or no resource version; pass the object that the server returned")
)

// NotSyncedError reports the sources that were not listed when a wait for them ended.
type NotSyncedError struct {
	// Informer is the informer's name.
	Informer string
	// Sources are the sources that were not listed, with their state and its cause.
	Sources []SourceStatus
	// Cause is why the wait ended: the context's cause, or [ErrStopped].
	Cause error
}

// Error names each source with its state and cause.
func (e *NotSyncedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "informer %s: not synced: %v", e.Informer, e.Cause)
	for i := range e.Sources {
		fmt.Fprintf(&b, "; %s", e.Sources[i])
	}
	return b.String()
}

// Unwrap returns why the wait ended and the last error of each source.
func (e *NotSyncedError) Unwrap() []error {
	errs := []error{e.Cause}
	for i := range e.Sources {
		if err := e.Sources[i].Err(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// NotReachedError reports that the mirror had not reached a version when a wait for it ended.
type NotReachedError struct {
	// Informer is the informer's name.
	Informer string
	// Key is the object that the wait was for; the zero Key for the whole mirror.
	Key object.Key
	// Version is the version that the wait was for. It is empty if the wait was for an object
	// to be deleted.
	Version object.Version
	// Marks are the versions that the mirror had reached.
	Marks []object.Mark
	// Cause is why the wait ended.
	Cause error
}

// Error reports which version the mirror has reached, and what advances it.
func (e *NotReachedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "informer %s: ", e.Informer)
	if !e.Key.IsZero() {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	if e.Version != "" {
		fmt.Fprintf(&b, "version %s not reached", e.Version)
	} else {
		b.WriteString("still there")
	}
	for i, m := range e.Marks {
		sep := ", at "
		if i > 0 {
			sep = "; "
		}
		b.WriteString(sep)
		if m.Scope != object.Everything {
			fmt.Fprintf(&b, "namespace %s: ", m.Scope)
		}
		if m.Version == "" {
			b.WriteString("nothing listed yet")
		} else {
			b.WriteString(string(m.Version))
		}
	}
	if !errors.Is(e.Cause, ErrNotCovered) {
		b.WriteString("; while nothing changes, only bookmarks advance the version, for which the informer has asked the server")
	}
	fmt.Fprintf(&b, ": %v", e.Cause)
	return b.String()
}

// Unwrap returns why the wait ended.
func (e *NotReachedError) Unwrap() error { return e.Cause }

// QuarantinedError reports that the mirror cannot have an object, because it could not decode, transform
// or store it. The mirror holds an older version of the object, or none.
type QuarantinedError struct {
	// Informer is the informer's name.
	Informer string
	// Key identifies the object, and Version is the version that the mirror cannot have.
	Key     object.Key
	Version object.Version
	// Cause is why the object could not be decoded, transformed or stored.
	Cause error
}

// Error names the object and the cause.
func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("informer %s: %s: version %s is in quarantine: %v", e.Informer, e.Key, e.Version, e.Cause)
}

// Unwrap returns the cause.
func (e *QuarantinedError) Unwrap() error { return e.Cause }

// PanicError reports a panic in a subscriber's function.
type PanicError struct {
	object.PanicError
	// Subscriber is the subscriber's name.
	Subscriber string
	// Key is the key of the object that the function was called for; zero for a batch.
	Key object.Key
}

// Error names the subscriber and the object.
func (e *PanicError) Error() string {
	if e.Key.IsZero() {
		return fmt.Sprintf("informer: subscriber %s panicked: %v", e.Subscriber, e.Value)
	}
	return fmt.Sprintf("informer: subscriber %s panicked on %s: %v", e.Subscriber, e.Key, e.Value)
}

// Unwrap returns the embedded error, never the panic's value.
func (e *PanicError) Unwrap() error { return &e.PanicError }
