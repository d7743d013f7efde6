package workqueue

import "time"

// Options configure a [Queue]. The zero Options is ready to use.
type Options[K comparable] struct {
	// Limiter decides how long AddRateLimited delays an item.
	// Defaults to [DefaultLimiter].
	Limiter Limiter[K]

	// AgeAfter is how long an item waits before its age counts as well as its priority: while any
	// item has waited that long, every second item taken is the one that has waited longest. An
	// item waits from the moment a worker could take it; if it was added while being processed,
	// from Done. Items that were in the queue before the first use of a priority or group age
	// from that use. A negative AgeAfter disables ageing. Defaults to 10 seconds.
	AgeAfter time.Duration

	// Group returns the group of an item, such as its namespace. Groups with items of the same
	// priority take turns, so that a large group does not starve the others. It must always
	// return the same group for an item. It is called without the queue's lock. Defaults to nil:
	// all items are in one group.
	Group func(item K) string

	// Times makes the queue record when items are added and taken, for [Queue.Snapshot]. It reads
	// the clock twice per item, which about doubles the cost of an item. Times are always
	// recorded if something depends on them: with Metrics, and with priorities or groups unless
	// ageing is disabled. Without them the queue still knows which item has been processed
	// longest, and for how long at least. Defaults to false.
	Times bool

	// Metrics receives the events of the queue; see [Queue.Stats] for its state.
	// Defaults to nil: no metrics.
	Metrics Metrics

	// Dropped is called with items that were added and will not be taken: those that were delayed
	// when the queue was shut down (Delayed), and those added later (Refused). It is called by
	// the goroutine that shuts down or adds, without the queue's lock. Defaults to nil: they are
	// only counted, in [Stats].
	Dropped func(Item[K])

	// OnPanic is called when Group, Limiter, Metrics or Dropped panicked, with the name of the
	// option and the panic's value, by the goroutine that panicked and without the queue's lock;
	// it must not panic itself. The queue continues: the item is in the group "", or is delayed by a
	// second. Defaults to nil: panics are only counted, in [Stats].
	OnPanic func(option string, value any)
}

// DefaultAgeAfter is the default of [Options.AgeAfter].
const DefaultAgeAfter = 10 * time.Second

func (o Options[K]) withDefaults() Options[K] {
	if o.Limiter == nil {
		o.Limiter = DefaultLimiter[K]()
	}
	if o.AgeAfter == 0 {
		o.AgeAfter = DefaultAgeAfter
	}
	return o
}

// Request configures [Queue.AddWith]. The zero Request is like Add.
type Request struct {
	// Priority is the item's priority; higher ones are taken first. An item that was added with
	// several priorities has the highest of them until it is taken. Defaults to 0, the priority
	// of Add.
	Priority int
	// After delays the item. Defaults to 0: no delay.
	After time.Duration
	// RateLimited delays the item by the limiter's delay, or by After if that is longer. Defaults
	// to false.
	RateLimited bool
}
