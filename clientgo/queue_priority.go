package clientgo

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	own "github.com/tarnproject/tarn/workqueue"
)

// AddOptions is the shape of controller-runtime's priorityqueue.AddOpts. Tarn does not
// import controller-runtime; a program that does names its type, see [NewPriorityQueue].
type AddOptions interface{ ~addOptions }

type addOptions = struct {
	After       time.Duration
	RateLimited bool
	Priority    *int
}

// NewPriorityQueue makes what controller-runtime's controllers use by default, a queue
// with priorities, on Tarn's queue. It is for controller.Options:
//
//	NewQueue: clientgo.NewPriorityQueue[reconcile.Request, priorityqueue.AddOpts],
//
// The queue has the methods of priorityqueue.PriorityQueue, so that handlers and
// controllers use its priorities: what a controller finds when it starts gives way to
// what changes meanwhile.
//
// It has no ageing, as controller-runtime's has none. Where that differs from client-go's
// queues, this is as client-go's are: adding an item that is delayed does not end the delay,
// so the item may be taken once more, when it is due. docs/migrating.md has the list.
func NewPriorityQueue[T comparable, O AddOptions](name string, rateLimiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	q := newQueue(own.Options[T]{AgeAfter: -1}, name, nil)
	return &priorityQueue[T, O]{rateLimitingQueue[T]{&delayingQueue[T]{q, retriesOf(name, nil)}, rateLimiter}}
}

type priorityQueue[T comparable, O AddOptions] struct {
	rateLimitingQueue[T]
}

// AddWithOpts adds items as controller-runtime's queue does: of the two delays that may
// be asked for, the shorter one counts.
func (q *priorityQueue[T, O]) AddWithOpts(opts O, items ...T) {
	o := addOptions(opts)
	how := own.Request{After: o.After}
	if o.Priority != nil {
		how.Priority = *o.Priority
	}
	if !o.RateLimited && o.After <= 0 {
		q.Queue.AddWith(how, items...)
		return
	}
	for i, item := range items {
		how.After = o.After
		if o.RateLimited {
			if d := q.limiter.When(item); o.After == 0 || d < o.After {
				how.After = d
			}
		}
		if how.After > 0 && q.retries != nil && !q.ShuttingDown() {
			q.retries.Inc()
		}
		q.Queue.AddWith(how, items[i:i+1]...)
	}
}

// Add adds an item with priority 0.
func (q *priorityQueue[T, O]) Add(item T) { q.AddWithOpts(O{}, item) }

// AddAfter adds an item with priority 0 when the delay has passed.
func (q *priorityQueue[T, O]) AddAfter(item T, d time.Duration) {
	q.AddWithOpts(O(addOptions{After: d}), item)
}

// AddRateLimited adds an item with priority 0 when the limiter says so.
func (q *priorityQueue[T, O]) AddRateLimited(item T) {
	q.AddWithOpts(O(addOptions{RateLimited: true}), item)
}

// GetWithPriority is Get that also returns the priority with which the item waited.
func (q *priorityQueue[T, O]) GetWithPriority() (item T, priority int, shutdown bool) {
	item, shutdown = q.Get()
	if shutdown {
		return item, 0, true
	}
	for _, i := range q.Inspect(item) {
		if i.State == own.Processing {
			priority = i.Priority
		}
	}
	return item, priority, false
}
