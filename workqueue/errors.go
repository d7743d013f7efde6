package workqueue

import "errors"

// What a caller may act on.
var (
	// ErrShutDown is returned by the forms of Get that take a context when the queue
	// is shut down and nothing is left to take: the worker's work is over.
	ErrShutDown = errors.New("workqueue: the queue is shut down")

	// ErrAbandoned is returned by [Queue.Drain] when ShutDown was called meanwhile,
	// so that the drain did not run to its end.
	ErrAbandoned = errors.New("workqueue: ShutDown ended the drain")
)
