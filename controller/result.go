package controller

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Result is what is to become of a key that was reconciled without an error. The zero
// Result is that it is done. With an error it is not looked at.
type Result struct {
	// After is when the key is to be reconciled again, if nothing changes before.
	// Defaults to 0: not until then.
	After time.Duration
	// Requeue says that the key is to be reconciled again, with back-off, though nothing
	// failed; After is then not looked at. Defaults to false.
	Requeue bool
}

// Terminal wraps an error that trying again would not mend: it is reported, and the key
// rests until it changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ cause error }

func (e *terminalError) Error() string { return "not to be retried: " + e.cause.Error() }
func (e *terminalError) Unwrap() error { return e.cause }

// verdict is what the controller makes of an error.
type verdict uint8

// Of several errors that were joined, the one whose verdict comes first here decides.
const (
	fine     verdict = iota // there is none
	final                   // to be reported
	panicked                // to be reported with its stack and tried again
	failed                  // to be reported and tried again
	conflict                // another client wrote first; to be tried again
	stale                   // a cache is older than a write of ours; to be held back
	fenced                  // the process may not work any more
)

// judge looks at an error. The value of a panic is not looked into: it may wrap anything.
func judge(err error) verdict {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case *PanicError:
			return panicked
		case *terminalError:
			return final
		case interface{ Unwrap() []error }:
			first := fenced + 1
			for _, err := range e.Unwrap() {
				if err != nil {
					first = min(first, judge(err))
				}
			}
			if first <= fenced {
				return first
			}
		}
	}
	switch {
	case err == nil:
		return fine
	case errors.Is(err, ErrNotLeading):
		return fenced
	case errors.Is(err, ErrStaleCache):
		return stale
	case apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return conflict
	}
	return failed
}
