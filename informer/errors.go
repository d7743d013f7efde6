package informer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// What a caller may act on.
var (
	// ErrStarted is returned by Run when it has been called before.
	ErrStarted = errors.New("informer: started before; make a new one")
	// ErrStopped is returned, or is the cause, when the informer has stopped.
	ErrStopped = errors.New("informer: stopped")
	// ErrNotCovered is the cause when an object is outside of what the informer mirrors: in
	// another namespace, or not selected by its labels or name.
	ErrNotCovered = errors.New("informer: outside the namespaces or the selection that are mirrored")
	// ErrAllNamespaces is returned by SetNamespaces for an informer that was not made
	// with Options.Namespaces.
	ErrAllNamespaces = errors.New("informer: made without Options.Namespaces, it covers all of its selection")
	// ErrNoVersion is returned for an object that has no UID or no version, so that nothing can
	// tell when the mirror has it.
	ErrNoVersion = errors.New("informer: the object has no UID or no version; note what the server returned for the write")
)

// NotSyncedError says which sources had not been listed when a wait for them ended.
type NotSyncedError struct {
	// Informer is its name.
	Informer string
	// Sources are those that are missing, each with its state and the cause of it.
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

// NotReachedError says that the mirror was not at a version when a wait for it ended.
type NotReachedError struct {
	// Informer is its name.
	Informer string
	// Key is what was waited for; the zero Key for everything.
	Key object.Key
	// Version is the version that was waited for. It is empty if that was the
	// disappearance of an object.
	Version object.Version
	// Marks tell where the mirror stands.
	Marks []object.Mark
	// Cause is why the wait ended.
	Cause error
}

// Error says how far the mirror has come, and what may make it move.
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
		b.WriteString("; where nothing else happens only bookmarks move a version, about once a minute if the server sends them")
	}
	fmt.Fprintf(&b, ": %v", e.Cause)
	return b.String()
}

// Unwrap returns why the wait ended.
func (e *NotReachedError) Unwrap() error { return e.Cause }

// QuarantinedError says that the cache cannot show what this process wrote, because it could
// not read the object. What it has is older.
type QuarantinedError struct {
	// Informer is its name.
	Informer string
	// Key is that of the object, and Version is what was written.
	Key     object.Key
	Version object.Version
	// Cause is why the object could not be decoded, transformed or stored.
	Cause error
}

// Error names the object and the cause.
func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("informer %s: %s: version %s was written but is in quarantine: %v", e.Informer, e.Key, e.Version, e.Cause)
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
