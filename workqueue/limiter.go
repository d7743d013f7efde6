package workqueue

import (
	"maps"
	"math"
	"sync"
	"time"
)

// Limiter returns how long an item is delayed before it is retried. It must be safe for
// concurrent use.
type Limiter[K comparable] interface {
	// When counts a failure of the item and returns the delay after it.
	When(item K) time.Duration
	// Forget forgets the item's failures.
	Forget(item K)
	// NumRequeues returns the number of the item's failures.
	NumRequeues(item K) int
}

// conditional is a Limiter that does not spend a token on a delay that would have no effect, because
// the item is already due earlier. All limiters of this package implement it. For other limiters
// the queue calls When each time.
type conditional[K comparable] interface {
	Limiter[K]
	// sooner is When if the delay would be shorter than than. Otherwise it counts the
	// failure, takes no token, and returns false.
	sooner(item K, than time.Duration) (d time.Duration, ok bool)
}

// failures counts the failures of each item.
type failures[K comparable] struct {
	mu   sync.Mutex // guards everything below
	n    map[K]int
	most int // items that n has held at a time since it was made
}

// add counts one more and returns how many there were before.
func (f *failures[K]) add(item K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[K]int{}
	}
	n := f.n[item]
	if n < math.MaxInt {
		f.n[item] = n + 1
	}
	f.most = max(f.most, len(f.n))
	return n
}

// Forget implements [Limiter]. It gives memory back as the number of items shrinks.
func (f *failures[K]) Forget(item K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.n, item)
	if shrinks(len(f.n), f.most) { // a Go map does not, by itself
		n := make(map[K]int, len(f.n))
		maps.Copy(n, f.n)
		f.n, f.most = n, len(n)
	}
}

// NumRequeues implements [Limiter].
func (f *failures[K]) NumRequeues(item K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[item]
}

// Exponential is a [Limiter] whose delays double with every failure of the item.
type Exponential[K comparable] struct {
	failures[K]
	base, limit time.Duration
}

// NewExponential makes a limiter with delays of base, 2·base, 4·base and so on, but
// never above limit. Both are at least a nanosecond, so that no delay is 0.
func NewExponential[K comparable](base, limit time.Duration) *Exponential[K] {
	return &Exponential[K]{base: max(1, base), limit: max(1, limit)}
}

// When implements [Limiter].
func (l *Exponential[K]) When(item K) time.Duration {
	n := l.add(item)
	if n >= 63 || l.base > l.limit>>n {
		return l.limit
	}
	return l.base << n
}

// sooner implements [conditional].
func (l *Exponential[K]) sooner(item K, than time.Duration) (time.Duration, bool) {
	d := l.When(item)
	return d, d < than
}

// FastSlow is a [Limiter] with one delay for an item's first failures and another
// for the rest.
type FastSlow[K comparable] struct {
	failures[K]
	fast, slow time.Duration
	attempts   int
}

// NewFastSlow returns a limiter that delays an item by fast for the given number of attempts, and
// by slow after that. Both are at least a nanosecond.
func NewFastSlow[K comparable](fast, slow time.Duration, attempts int) *FastSlow[K] {
	return &FastSlow[K]{fast: max(1, fast), slow: max(1, slow), attempts: attempts}
}

// When implements [Limiter].
func (l *FastSlow[K]) When(item K) time.Duration {
	if l.add(item) < l.attempts {
		return l.fast
	}
	return l.slow
}

// sooner implements [conditional].
func (l *FastSlow[K]) sooner(item K, than time.Duration) (time.Duration, bool) {
	d := l.When(item)
	return d, d < than
}
