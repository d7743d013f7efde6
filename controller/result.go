package controller

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

const (
	fine     verdict = iota // there is none
	failed                  // to be reported and tried again
	final                   // to be reported
	conflict                // somebody else wrote; to be tried again
	stale                   // a cache is older than a write of ours; to be held back
	fenced                  // the process may not work any more
)

// judge looks at an error. Of several that were joined, the one that makes most noise
// decides.
func judge(err error) verdict {
	if err == nil {
		return fine // before anything is allocated
	}
	var all interface{ Unwrap() []error }
	var last *terminalError
	switch {
	case errors.As(err, &last):
		return final
	case errors.As(err, &all) && len(all.Unwrap()) > 0:
		least := fenced
		for _, err := range all.Unwrap() {
			if err != nil {
				least = min(least, judge(err))
			}
		}
		return least
	case errors.Is(err, ErrNotLeading):
		return fenced
	case errors.Is(err, ErrStaleCache):
		return stale
	case apierrors.IsConflict(err):
		return conflict
	}
	return failed
}
