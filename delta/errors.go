package delta

import (
	"errors"
	"fmt"
)

// Errors that callers may compare against.
var (
	// ErrClosed is returned to producers after [FIFO.Close] and [Buffer.Close], and by [FIFO.Pop]
	// and [Buffer.PopBatch] when nothing is left to take.
	ErrClosed = errors.New("delta: the queue is closed")

	// ErrRequeue is returned by a process function, alone or wrapped, to put its deltas
	// back; see [Requeue].
	ErrRequeue = errors.New("delta: put back")
)

// Requeue returns an error that wraps [ErrRequeue] and the cause. A nil cause is allowed.
func Requeue(cause error) error {
	if cause == nil {
		return ErrRequeue
	}
	return fmt.Errorf("%w: %w", ErrRequeue, cause)
}
