package workqueue

import "time"

// Options change how a [Queue] works. The zero Options is ready to use.
type Options[K comparable] struct {
	// Limiter decides how long AddRateLimited delays an item.
	// Defaults to [DefaultLimiter].
	Limiter Limiter[K]

	// AgeAfter is how long an item waits before its age counts as well as its
	// priority: while anything has waited that long, every other item that is taken
	// is the one that has waited longest. An item waits from the moment a worker could
	// take it: if it was added while it was processed, from Done. Items that were in
	// the queue before its first use of a priority or group age from that use. A
	// negative AgeAfter turns ageing off.
	// Defaults to 10 seconds.
	AgeAfter time.Duration

	// Group names the group of an item, such as its namespace. Groups that have items
	// of the same priority take turns, so that one with many cannot keep those of
	// another waiting. It must always say the same of an item. It is called without
	// the queue's lock.
	// Defaults to nil: all items are of one group.
	Group func(item K) string

	// Times makes the queue note when items are added and taken, so that Snapshot can
	// tell. That is two readings of the clock for each item, about as much as all
	// the rest. Times are noted in any case where something depends on them: with
	// Metrics, and with priorities or groups unless ageing is off. Without them it is
	// still known which item has been processed longest, and for how long at least.
	// Defaults to false.
	Times bool

	// Metrics receives the events of the queue; see [Queue.Stats] for its state.
	// Defaults to nil: no metrics.
	Metrics Metrics

	// Dropped is called with items that were added and will not be taken:
	// those that were delayed when the queue was shut down (Delayed), and those that
	// came later (Refused). It is called by the goroutine that shuts down or adds,
	// without the queue's lock.
	// Defaults to nil: they are only counted, in [Stats].
	Dropped func(Item[K])
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

// Request says how items are to be added. The zero Request adds them as Add does.
type Request struct {
	// Priority is how urgent it is; what is higher is taken first. An item that was
	// added with several priorities has the highest of them until it is taken.
	// Defaults to 0, the priority of Add.
	Priority int
	// After delays the item. Defaults to 0: not at all.
	After time.Duration
	// RateLimited delays the item as the limiter says; with After too, for the longer
	// of both times. Defaults to false.
	RateLimited bool
}
