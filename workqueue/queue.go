package workqueue

import (
	"sync"
	"sync/atomic"
	"time"
)

// Queue is a queue of items to process. Create one with [New].
//
// Guarantees:
//
//   - An item is with at most one worker at a time. An item that is added while it waits
//     is taken once. An item that is added while it is processed is taken again after
//     Done.
//   - Items of the same priority and group are taken in the order in which they began to
//     wait. Higher priorities are taken first, groups take turns.
//   - No item starves; see [Options.AgeAfter]. An item that began to wait when n others
//     waited is taken no later than by the 2(n+1)th Get after it has waited AgeAfter,
//     regardless of what is added later and with which priority.
//   - A delayed item begins to wait at its due time, never earlier. It may be up to one
//     millisecond late if another item was due just before it, or four if many were. It
//     has one due time, the earliest requested. Adding the item without a delay does not
//     cancel the delayed one: the item is taken twice, unless it still waits when the delay
//     ends.
//   - A queue has no goroutine. A queue that is dropped without ShutDown is collected
//     once its delays have passed.
//
// All methods may be called from any goroutine, and by the functions in [Options]. Keys are
// copied in and out; the queue never modifies what they point to.
//
// Memory is proportional to the number of items: it is freed when three quarters of it are
// unused, except the memory for 16,384 items. Up to that number no operation allocates in
// the steady state.
//
// Each item has one entry, with its place among the items that wait (line), are processed
// (runs) and are delayed (delays). Rejected: three queues, each wrapped around the one
// before, as in client-go. Each has its own lock and map, no call can say where an item is,
// and a delayed item is stored twice.
type Queue[K comparable] struct {
	opts        Options[K]
	conditional conditional[K] // the limiter, if it is one
	age         int64          // opts.AgeAfter, 0 for never
	born        time.Time      // where the queue's clock begins
	panics      atomic.Uint64  // of the functions in opts

	// mu guards everything below. No function of the user's runs while it is held.
	mu                     sync.Mutex
	arrived                sync.Cond // there is something to take, or the queue was closed
	closed                 bool      // ShutDown or Drain was called
	timed                  bool      // the times of adding are recorded
	dirty                  int       // waiters that are not in line because their item is processed
	adds, retries, dropped uint64
	index                  index
	entries                slab[entry[K]]
	runs                   []run // everything that is being processed
	taken                  uint64
	line                   line
	delays                 delays[K]
	drained                chan struct{} // closed when the queue is empty or ShutDown ends the drain; nil without a drain
}

// New makes an empty queue.
func New[K comparable](opts Options[K]) *Queue[K] {
	opts = opts.withDefaults()
	q := &Queue[K]{opts: opts, age: max(0, int64(opts.AgeAfter)), born: time.Now()}
	q.arrived.L = &q.mu
	q.conditional, _ = opts.Limiter.(conditional[K])
	q.timed = opts.Times || opts.Metrics != nil
	q.line.init()
	q.line.plain = !q.timed && opts.Group == nil
	q.index.resize(leastCells)
	q.delays.heap.entries = &q.entries
	return q
}

// now reads the queue's clock, which never shows 0.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.born)) + 1 }

// stamp returns the time, or 0 if times are not recorded.
func (q *Queue[K]) stamp() int64 {
	if q.timed {
		return q.now()
	}
	return 0
}

// at turns a time on the queue's clock into one for the user.
func (q *Queue[K]) at(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return q.born.Add(time.Duration(t - 1))
}

// Add adds an item with priority 0, unless it waits already. After ShutDown it is dropped; see
// [Options.Dropped].
func (q *Queue[K]) Add(item K) {
	hash, group := hashOf(item), q.group(item)
	q.mu.Lock()
	if q.closed {
		q.refuse(item, Added, 0)
		return
	}
	added := q.put(item, hash, 0, group)
	q.mu.Unlock()
	if added {
		q.count(1, 0)
	}
}

// AddWith adds items as configured by the request. With many items it is cheaper than a call for
// each.
func (q *Queue[K]) AddWith(how Request, items ...K) {
	switch {
	case how.After > 0 || how.RateLimited:
		for _, item := range items {
			q.addLater(item, how, false)
		}
	case q.opts.Group != nil:
		for i := range items {
			q.addAll(how.Priority, q.group(items[i]), items[i:i+1])
		}
	default:
		for len(items) > 0 {
			n := min(len(items), atOnce)
			q.addAll(how.Priority, "", items[:n])
			items = items[n:]
		}
	}
}

// atOnce bounds how many items are moved before others may have the lock.
const atOnce = 256

func (q *Queue[K]) addAll(priority int, group string, items []K) {
	added, closed := q.putAll(priority, group, items)
	if closed {
		for _, item := range items {
			q.mu.Lock()
			q.refuse(item, Added, priority)
		}
	}
	q.count(added, 0)
}

func (q *Queue[K]) putAll(priority int, group string, items []K) (added int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock() // hashing panics if K is an interface and the item has no hash
	if q.closed {
		return 0, true
	}
	for _, item := range items {
		if q.put(item, hashOf(item), priority, group) {
			added++
		}
	}
	return added, false
}

// group returns the item's group. The lock must not be held.
func (q *Queue[K]) group(item K) (group string) {
	if q.opts.Group != nil {
		q.guard("Group", func() { group = q.opts.Group(item) })
	}
	return group
}

// put lets an item wait and reports whether it did not before. The lock must be held.
func (q *Queue[K]) put(item K, hash uint32, priority int, group string) bool {
	t := q.tag(priority, group, Added)
	id, e := q.entry(item, hash)
	return q.admit(id, e, t, q.stamp())
}

// tag returns the tag of a lane. The first use of a second lane makes the queue record
// times, for ageing.
func (q *Queue[K]) tag(priority int, group string, r Reason) tag {
	if priority == 0 && group == "" {
		return tagOf(0, r)
	}
	if q.line.plain {
		q.unfold()
	}
	if !q.timed && q.age > 0 {
		q.timed = true
		q.line.from = q.now()
	}
	return tagOf(q.line.lane(priority, group), r)
}

// admit lets an entry wait, after Done if need be, and reports whether it did not
// before. It takes no ownership of the tag.
func (q *Queue[K]) admit(id uint32, e *entry[K], t tag, now int64) bool {
	waiter := &e.place
	run := e.run()
	if run != 0 {
		waiter = &q.runs[run-1].dirty
	}
	if *waiter != 0 {
		if !q.line.plain {
			q.line.raise(*waiter, t, run == 0)
		}
		return false
	}
	if q.line.plain && id >= chainEnd {
		q.unfold()
	}
	if q.line.plain {
		*waiter = chainedFor(t.reason())
	} else {
		*waiter = q.line.newWaiter(id, t, now)
	}
	q.adds++
	if run != 0 {
		q.dirty++
	} else {
		q.wait(id, *waiter, now)
	}
	return true
}

// wait puts an entry that has a waiter in line, where it ages from now on.
func (q *Queue[K]) wait(id, waiter uint32, now int64) {
	q.line.ready++
	if q.line.plain {
		push(&q.line.chain, &q.entries, id)
	} else {
		q.line.enqueue(waiter, now)
	}
	q.arrived.Signal()
}

// unfold makes a plain line one with waiters and lanes. Of no item in it the age is
// known.
func (q *Queue[K]) unfold() {
	l := &q.line
	l.plain = false
	for l.chain.head != 0 {
		id, r := pop(&l.chain, &q.entries)
		e := q.entries.at(id)
		e.place = l.newWaiter(id, tagOf(0, r), 0)
		l.enqueue(e.place, 0)
	}
	for i := range q.runs {
		if r := &q.runs[i]; r.dirty != 0 {
			r.dirty = l.newWaiter(r.entry, tagOf(0, chainReason(r.dirty)), 0)
		}
	}
}
