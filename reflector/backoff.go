package reflector

import "time"

// delays are the waits of one reflector. Only its goroutine uses them.
type delays struct {
	Backoff
	rand func() float64
	d    time.Duration // of the last wait
	end  time.Time     // of the last wait
}

// next returns how long to wait, given what the server asks for.
func (b *delays) next(now time.Time, retryAfter time.Duration) time.Duration {
	if b.d == 0 || now.Sub(b.end) >= b.ResetAfter {
		b.d = b.Min
	} else {
		b.d = min(2*b.d, b.Max)
	}
	spread := time.Duration(b.rand() * float64(b.d))
	wait := max(b.d, retryAfter) + spread
	b.end = now.Add(wait)
	return wait
}
