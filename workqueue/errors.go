package workqueue

import "errors"

// Errors that a caller may want to handle.
var (
	// ErrShutDown is returned by the variants of Get that take a context when the queue is shut
	// down and nothing is left to take.
	ErrShutDown = errors.New("workqueue: the queue is shut down")

	// ErrAbandoned is returned by [Queue.Drain] if ShutDown was called before the drain
	// completed.
	ErrAbandoned = errors.New("workqueue: ShutDown ended the drain")
)
