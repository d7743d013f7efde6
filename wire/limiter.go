package wire

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// NewLimiter returns a token bucket: perSecond requests per second on average, and bursts of up
// to burst requests. Several clients can share it.
func NewLimiter(perSecond float64, burst int) Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))
}

// Backoff delays requests to an overloaded server, across requests and, if shared, across clients.
// [Retry], in contrast, delays the attempts of one request. A 429, a 5xx and a server that cannot be
// reached double the host's delay from Base up to Cap, with jitter; any other response resets it.
// The zero value works. It is safe for concurrent use and must not be copied after first use.
type Backoff struct {
	// Base is the first delay. Defaults to 1 s.
	Base time.Duration
	// Cap is the longest delay. Defaults to 60 s.
	Cap time.Duration

	mu    sync.Mutex // guards hosts
	hosts map[string]hostDelay
}

type hostDelay struct {
	delay time.Duration
	until time.Time
}

// left returns the rest of the host's delay.
func (b *Backoff) left(host string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.hosts[host]
	if !ok {
		return 0
	}
	return max(0, time.Until(h.until))
}

// observe doubles the host's delay or resets it. While a delay is running, further overloaded
// results do not double it again, because they are those of requests in flight.
func (b *Backoff) observe(host string, overloaded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !overloaded {
		delete(b.hosts, host)
		return
	}
	h := b.hosts[host]
	now := time.Now()
	if now.Before(h.until) {
		return
	}
	base, top := b.Base, b.Cap
	if base <= 0 {
		base = time.Second
	}
	if top <= 0 {
		top = 60 * time.Second
	}
	h.delay = min(max(base, 2*h.delay), top)
	h.until = now.Add(h.delay/2 + rand.N(h.delay/2+1))
	if b.hosts == nil {
		b.hosts = map[string]hostDelay{}
	}
	b.hosts[host] = h
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
