package delta

import (
	"context"
	"sync"
)

// gate is where consumers wait until a producer or another consumer opens it. It replaces sync.Cond
// because a wait must also end when a context is done, without a goroutine that watches it. It
// allocates nothing after it is made.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// open ends the wait of one goroutine, now or when the next one comes.
func (g gate) open() {
	select {
	case g <- struct{}{}:
	default:
	}
}

// wait unlocks mu, waits until the gate is opened or the context done, and locks mu again. The caller
// checks its condition again, and opens the gate for the next goroutine if it stops waiting.
func (g gate) wait(ctx context.Context, mu *sync.Mutex) {
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-g:
	case <-ctx.Done():
	}
}
