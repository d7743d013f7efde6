package reflector

import "context"

// Budget bounds how many of the reflectors that share it list at the same time. Usually all
// reflectors of one cluster share one, so that they do not all list at once after a restart of the
// API server. Its methods may be called from any goroutine.
type Budget struct {
	slots chan struct{}
}

// NewBudget makes a budget of n concurrent lists, at least one.
func NewBudget(n int) *Budget { return &Budget{slots: make(chan struct{}, max(n, 1))} }

// InUse returns how many lists are in progress.
func (b *Budget) InUse() int { return len(b.slots) }

// Size returns how many lists may be in progress.
func (b *Budget) Size() int { return cap(b.slots) }

// take waits for a slot, or for the end of ctx.
func (b *Budget) take(ctx context.Context) error {
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Budget) release() { <-b.slots }
