package wire

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// NewLimiter returns a token bucket: perSecond requests per second on average, and bursts of up
// to burst requests. Several clients can share it.
func NewLimiter(perSecond float64, burst int) Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))
}

// sleep blocks for d or until the context is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
