package workqueue

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is a [Limiter] with a token bucket that all items share. It does not count failures.
type Bucket[K comparable] struct {
	limiter *rate.Limiter
}

// NewBucket returns a limiter with the given token bucket, which may be shared.
func NewBucket[K comparable](limiter *rate.Limiter) *Bucket[K] {
	return &Bucket[K]{limiter}
}

// When implements [Limiter]: it takes a token and returns how long until it is available. The
// delay is the longest possible one if the bucket never has a token.
func (l *Bucket[K]) When(K) time.Duration { return l.limiter.Reserve().Delay() }

// sooner implements [conditional].
func (l *Bucket[K]) sooner(_ K, than time.Duration) (time.Duration, bool) {
	if than <= 0 {
		return 0, false
	}
	now := time.Now()
	r := l.limiter.ReserveN(now, 1)
	d := r.DelayFrom(now)
	if d >= than {
		r.CancelAt(now)
		return 0, false
	}
	return d, true
}

// Forget implements [Limiter]; there is nothing to forget.
func (l *Bucket[K]) Forget(K) {}

// NumRequeues implements [Limiter]; it is always 0.
func (l *Bucket[K]) NumRequeues(K) int { return 0 }

// MaxOf is a [Limiter] that combines several: it returns the longest of their delays.
type MaxOf[K comparable] struct {
	limiters []Limiter[K]
}

// NewMaxOf returns a limiter with the longest of the limiters' delays. Buckets among them are
// called last, and only if their token is needed.
func NewMaxOf[K comparable](limiters ...Limiter[K]) *MaxOf[K] {
	limiters = slices.Clone(limiters)
	slices.SortStableFunc(limiters, func(a, b Limiter[K]) int { return isBucket(a) - isBucket(b) })
	return &MaxOf[K]{limiters}
}

func isBucket[K comparable](l Limiter[K]) int {
	if _, ok := l.(*Bucket[K]); ok {
		return 1
	}
	return 0
}

// When implements [Limiter].
func (l *MaxOf[K]) When(item K) (longest time.Duration) {
	for _, l := range l.limiters {
		longest = max(longest, l.When(item))
	}
	return longest
}

// sooner implements [conditional].
func (l *MaxOf[K]) sooner(item K, than time.Duration) (longest time.Duration, ok bool) {
	ok = true
	for _, l := range l.limiters {
		d, sooner := sooner(l, item, than)
		longest = max(longest, d)
		if !sooner {
			ok, than = false, 0 // the others only count
		}
	}
	return longest, ok && longest < than
}

// sooner is the method of that name, for any limiter.
func sooner[K comparable](l Limiter[K], item K, than time.Duration) (time.Duration, bool) {
	if s, ok := l.(conditional[K]); ok {
		return s.sooner(item, than)
	}
	d := l.When(item)
	return d, d < than
}

// Forget implements [Limiter].
func (l *MaxOf[K]) Forget(item K) {
	for _, l := range l.limiters {
		l.Forget(item)
	}
}

// NumRequeues implements [Limiter]: it is the highest of the limiters'.
func (l *MaxOf[K]) NumRequeues(item K) (most int) {
	for _, l := range l.limiters {
		most = max(most, l.NumRequeues(item))
	}
	return most
}

// Ceiling is a [Limiter] that caps the delays of another one.
type Ceiling[K comparable] struct {
	limiter Limiter[K]
	limit   time.Duration
}

// NewCeiling returns a limiter with the delays of another one, capped at limit.
func NewCeiling[K comparable](limiter Limiter[K], limit time.Duration) *Ceiling[K] {
	return &Ceiling[K]{limiter, max(1, limit)}
}

// When implements [Limiter].
func (l *Ceiling[K]) When(item K) time.Duration { return min(l.limiter.When(item), l.limit) }

// sooner implements [conditional].
func (l *Ceiling[K]) sooner(item K, than time.Duration) (time.Duration, bool) {
	if l.limit < than {
		return l.When(item), true
	}
	return sooner(l.limiter, item, than)
}

// Forget implements [Limiter].
func (l *Ceiling[K]) Forget(item K) { l.limiter.Forget(item) }

// NumRequeues implements [Limiter].
func (l *Ceiling[K]) NumRequeues(item K) int { return l.limiter.NumRequeues(item) }

// DefaultLimiter returns a limiter that suits most controllers: a delay for each item that
// doubles from 5 milliseconds up to 1000 seconds, and at most ten items per second in total,
// after a burst of a hundred.
func DefaultLimiter[K comparable]() Limiter[K] {
	return NewMaxOf(
		NewExponential[K](5*time.Millisecond, 1000*time.Second),
		NewBucket[K](rate.NewLimiter(10, 100)),
	)
}
