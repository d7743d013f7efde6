package controller

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
)

// Result is the outcome of a reconcile without an error. The zero Result means done. With an
// error it is ignored.
type Result struct {
	// RequeueAfter is when to reconcile the key again if it does not change before.
	// Defaults to 0: only when it changes.
	RequeueAfter time.Duration
	// Requeue reconciles the key again with back-off although nothing failed; RequeueAfter is then
	// ignored. Defaults to false.
	Requeue bool
}

// Terminal wraps an error that a retry would not fix: it is reported, and the key is not
// reconciled until it changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ cause error }

func (e *terminalError) Error() string { return "not to be retried: " + e.cause.Error() }
func (e *terminalError) Unwrap() error { return e.cause }

// verdict classifies the error of a reconcile.
type verdict uint8

// For joined errors, the verdict that comes first here wins.
const (
	fine     verdict = iota // no error
	final                   // reported, not retried
	panicked                // reported with its stack and retried
	failed                  // reported and retried
	conflict                // another client wrote first; retried
	stale                   // a cache is not synced or older than this process's write; held back
	fenced                  // the fence is closed
)

// judge classifies an error. It does not inspect the value of a panic, which may wrap
// anything.
func judge(err error) verdict {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if unsynced, ok := e.(*informer.NotSyncedError); ok && unsynced.Cause == ErrNotSynced {
			return stale // whatever the causes of its sources are
		}
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
	case errors.Is(err, ErrStaleCache), errors.Is(err, ErrNotSynced):
		return stale
	case apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		return conflict
	}
	return failed
}
