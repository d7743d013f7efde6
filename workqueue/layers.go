package workqueue

import "time"

// Plain is a queue without delays. A [Queue] is one, and so is any type with the methods of
// client-go's queues, which have the same names and semantics.
type Plain[K comparable] interface {
	// Add is [Queue.Add].
	Add(item K)
	// Len is [Queue.Len].
	Len() int
	// Get is [Queue.Get].
	Get() (item K, shutdown bool)
	// Done is [Queue.Done].
	Done(item K)
	// ShutDown is [Queue.ShutDown].
	ShutDown()
	// ShutDownWithDrain is [Queue.ShutDownWithDrain].
	ShutDownWithDrain()
	// ShuttingDown is [Queue.ShuttingDown].
	ShuttingDown() bool
}

// Delaying is a queue with delays but without a limiter.
type Delaying[K comparable] interface {
	Plain[K]
	// AddAfter is [Queue.AddAfter].
	AddAfter(item K, d time.Duration)
}

// RateLimiting is a queue with delays and a limiter.
type RateLimiting[K comparable] interface {
	Delaying[K]
	// AddRateLimited is [Queue.AddRateLimited].
	AddRateLimited(item K)
	// Forget is [Queue.Forget].
	Forget(item K)
	// NumRequeues is [Queue.NumRequeues].
	NumRequeues(item K) int
}

// NewPlain returns a queue as a [Plain].
func NewPlain[K comparable](opts Options[K]) Plain[K] { return New(opts) }

// NewDelaying returns a queue as a [Delaying].
func NewDelaying[K comparable](opts Options[K]) Delaying[K] { return New(opts) }

// NewRateLimiting returns a queue as a [RateLimiting].
func NewRateLimiting[K comparable](opts Options[K]) RateLimiting[K] { return New(opts) }
