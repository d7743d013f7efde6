package reflector

import (
	"context"
	"time"
)

// backingOff is the state of waiting after a failure.
type backingOff[T any] struct {
	since time.Time
	asked time.Time // until when the server asked to wait, which Wake does not shorten
	until time.Time
	next  state[T] // follows the wait; it holds nothing that must be freed
}

// backOff returns a state that waits because of cause, after which next follows.
func (r *Reflector[T]) backOff(cause *Error, next state[T]) state[T] {
	select {
	case <-r.woken: // left over from a wait that had already ended
	default:
	}
	r.now.Cause = cause
	r.now.Counts.Waits++
	now, asked := time.Now(), retryAfter(cause)
	return &backingOff[T]{since: now, asked: now.Add(asked), until: now.Add(r.delays.next(now, asked)), next: next}
}

func (b *backingOff[T]) step(ctx context.Context, r *Reflector[T]) (state[T], error) {
	t := time.NewTimer(time.Until(b.until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.woken:
		if b.until = b.asked; time.Now().Before(b.until) {
			return b, nil
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return b.next, nil
}

func (b *backingOff[T]) show(s *Status) { s.State, s.Since, s.Until = BackingOff, b.since, b.until }

func (b *backingOff[T]) leave() {}

// delays computes the back-off delays.
type delays struct {
	Backoff
	rand func() float64
	d    time.Duration // the last delay, without its random part
	end  time.Time     // when the last delay ended
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

// failures counts what failed since a watch last made progress, which resets all of it except
// hurried. A watch that the server ends normally resets all of it.
type failures struct {
	relists  streak // lists made because a watch failed
	version  streak // watches that failed at one version because of what the server sent
	hurried  streak // watches that the server ended within a second, after an event
	server   streak // watches that ended in an internal error of the server
	notFound streak // LISTs answered with 404; a complete list resets it too
}

// streak is a number of failures of one sort in a row.
type streak struct {
	n     int
	since time.Time // of the first
}

// add counts a failure and returns how many there are.
func (s *streak) add() int {
	if s.n++; s.n == 1 {
		s.since = time.Now()
	}
	return s.n
}
