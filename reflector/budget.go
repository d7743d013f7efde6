package reflector

import "context"

// Budget bounds how many of the reflectors that share it list at the same time,
// usually those of one cluster, so that a restart of the API server does not meet all
// of their lists at once. Its methods may be called from any goroutine.
type Budget struct {
	slots chan struct{}
}

// NewBudget makes a budget of n lists, at least one.
func NewBudget(n int) *Budget { return &Budget{slots: make(chan struct{}, max(n, 1))} }

// InUse returns how many lists are being made.
func (b *Budget) InUse() int { return len(b.slots) }

// Size returns how many may be.
func (b *Budget) Size() int { return cap(b.slots) }

// take waits for a slot; done ends the wait.
func (b *Budget) take(ctx context.Context) error {
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Budget) release() { <-b.slots }
