package workqueue

import "errors"

// ErrShutDown is returned by the variants of Get that take a context when the queue is shut down
// and nothing is left to take.
var ErrShutDown = errors.New("workqueue: the queue is shut down")
