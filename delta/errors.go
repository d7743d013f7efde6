package delta

import (
	"errors"
	"fmt"
)

// What a caller may act on.
var (
	// ErrClosed is returned by producers after [FIFO.Close], and by [FIFO.Pop]
	// and [FIFO.PopBatch] when nothing is left to take.
	ErrClosed = errors.New("delta: the FIFO is closed")

	// ErrRequeue is what a process function returns, alone or wrapped, to have
	// put back what it was given; see [Requeue].
	ErrRequeue = errors.New("delta: put back")
)

// Requeue returns an error that asks for what was popped to be put back and that
// wraps its cause as well as [ErrRequeue]. A nil cause is allowed.
func Requeue(cause error) error {
	if cause == nil {
		return ErrRequeue
	}
	return fmt.Errorf("%w: %w", ErrRequeue, cause)
}
