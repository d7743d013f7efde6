// Package lease has what the protocols on Leases share: the clocks that they measure with, and the
// optional fields of a Lease.
package lease

import "time"

// Moment is a reading of both clocks of a process.
type Moment struct {
	Mono time.Duration // since the clock was created; it stops while the machine is suspended
	Wall time.Time     // it can be set
}

// Since returns how much time has passed, by the clock that shows more.
func (m Moment) Since(then Moment) time.Duration { return max(m.Mono-then.Mono, m.Wall.Sub(then.Wall)) }

// Clock reads both clocks. Create one with [NewClock].
type Clock struct{ origin time.Time }

// NewClock returns a clock whose monotonic part starts now.
func NewClock() Clock { return Clock{time.Now()} }

// Now returns the present moment.
func (c Clock) Now() Moment {
	now := time.Now()
	return Moment{Mono: now.Sub(c.origin), Wall: now.Round(0)}
}

// Value returns the value of an optional field, or the zero value.
func Value[V any](p *V) (v V) {
	if p != nil {
		v = *p
	}
	return v
}
