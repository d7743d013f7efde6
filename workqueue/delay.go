package workqueue

import (
	"math"
	"time"
)

// delays is the items that are delayed: a heap, and one timer that is set for the first
// in it. Items leave it only when they are due.
//
// Rejected: a goroutine that reads a channel, as in client-go. It costs two switches for
// every item, it must be ended, and AddAfter can block on it.
type delays[K comparable] struct {
	heap  heap[K]
	timer *time.Timer
	armed int64 // what the timer is set for; 0: it is not
	rests int64 // until when it is not set, because it has just fired
}

// The timer pauses after it has fired, because a firing costs about 45 µs of CPU time, far
// more than an item. An item that is due shortly after another may therefore be late by
// rest, or by longRest if at least crowd items were due at once.
const (
	rest     = int64(time.Millisecond)
	longRest = 4 * rest
	crowd    = 64
)

// never is the time of what is delayed beyond the clock's end.
const never = math.MaxInt64

// after returns the time that is d from now, which may be never.
func after(now int64, d time.Duration) int64 {
	if due := now + int64(d); due > now {
		return due
	}
	return never
}

// AddAfter adds an item after a delay; with a zero or negative one it adds it now. An item has
// one due time: the earliest is kept. The item is added with the priority with which it is being
// processed, or 0, so that a postponed item keeps its priority. After ShutDown it is dropped; see
// [Options.Dropped].
func (q *Queue[K]) AddAfter(item K, d time.Duration) {
	q.addLater(item, Request{After: d}, true)
}

// AddRateLimited is AddAfter with the limiter's delay. If the item is already delayed and due no
// later, it stays unchanged: the limiter counts the failure. A limiter of this package then takes no
// token; another one is called as for any failure.
func (q *Queue[K]) AddRateLimited(item K) {
	q.addLater(item, Request{RateLimited: true}, true)
}

// Forget makes the limiter forget how often the item was added rate-limited. The
// item must still be Done.
func (q *Queue[K]) Forget(item K) {
	q.guard("Limiter", func() { q.opts.Limiter.Forget(item) })
}

// NumRequeues returns how often the item was added rate-limited since Forget.
func (q *Queue[K]) NumRequeues(item K) (n int) {
	q.guard("Limiter", func() { n = q.opts.Limiter.NumRequeues(item) })
	return n
}

// addLater adds with a delay. With inherit, an item that is processed keeps the
// priority of that.
func (q *Queue[K]) addLater(item K, how Request, inherit bool) {
	hash, group := hashOf(item), q.group(item)
	reason, d := AddedAfter, how.After
	if how.RateLimited {
		wait, ok := q.limit(item, hash, how.Priority)
		if !ok {
			return
		}
		reason, d = AddedRateLimited, max(d, wait)
	}
	q.mu.Lock()
	if q.closed {
		q.refuse(item, reason, how.Priority)
		return
	}
	q.retries++
	id, e := q.entry(item, hash)
	var t tag
	if run := e.run(); inherit && run != 0 {
		t = tagOf(q.runs[run-1].tag.lane(), reason)
	} else {
		t = q.tag(how.Priority, group, reason)
	}
	added := 0
	if d > 0 {
		now := q.now()
		q.delay(id, e, t, now, after(now, d))
	} else if q.admit(id, e, t, q.stamp()) {
		added = 1
	}
	q.mu.Unlock()
	q.count(added, 1)
}

// limit returns the limiter's delay, and whether the item may still be added.
func (q *Queue[K]) limit(item K, hash uint32, priority int) (d time.Duration, ok bool) {
	q.mu.Lock()
	if q.closed {
		q.refuse(item, AddedRateLimited, priority)
		return 0, false
	}
	var left time.Duration
	if q.conditional != nil {
		if id, _ := q.find(item, hash); id != 0 && q.entries.at(id).slot != 0 {
			left = time.Duration(q.delays.heap.nodes[q.entries.at(id).slot-1].due - q.now())
		}
	}
	q.mu.Unlock()
	d = afterPanic
	q.guard("Limiter", func() {
		if left <= 0 {
			d = q.opts.Limiter.When(item)
		} else if sooner, ok := q.conditional.sooner(item, left); ok {
			d = sooner
		} else {
			d = left // no sooner than it is due
		}
	})
	return d, true
}

// afterPanic is the delay of an item whose limiter panicked.
const afterPanic = time.Second

// delay delays an entry until due, unless it is due earlier already. The higher of the two
// priorities is kept.
func (q *Queue[K]) delay(id uint32, e *entry[K], t tag, now, due int64) {
	h := &q.delays.heap
	switch {
	case e.slot == 0:
		q.line.hold(t)
		e.late = t
		h.push(node{due, id})
	default:
		i := int(e.slot - 1)
		if p := q.line.priority(e.late); q.line.priority(t) > p || due < h.nodes[i].due && q.line.priority(t) == p {
			q.line.hold(t)
			q.line.drop(e.late)
			e.late = t
		}
		if due >= h.nodes[i].due {
			return
		}
		h.up(i, node{due, id})
	}
	q.arm(now)
}

// arm sets the timer for the first delay, unless it is set for that or earlier.
func (q *Queue[K]) arm(now int64) {
	h := &q.delays
	if len(h.heap.nodes) == 0 || h.heap.nodes[0].due == never {
		return
	}
	next := max(h.heap.nodes[0].due, h.rests)
	if h.armed != 0 && h.armed <= next {
		return
	}
	h.armed = next
	d := time.Duration(h.armed - now)
	if h.timer == nil {
		h.timer = time.AfterFunc(d, q.fire)
	} else {
		h.timer.Reset(d)
	}
}

// fire is what the timer calls: whatever is due now waits in line.
func (q *Queue[K]) fire() {
	added, moved := 0, 0
	q.mu.Lock()
	q.delays.armed = 0
	now := q.now()
	for len(q.delays.heap.nodes) > 0 && q.delays.heap.nodes[0].due <= now {
		if q.moveDue(now) {
			added++
		}
		if moved++; moved%atOnce == 0 {
			q.mu.Unlock() // for workers, and for ShutDown
			q.mu.Lock()
		}
	}
	q.delays.rests = now + rest
	if moved >= crowd {
		q.delays.rests = now + longRest
	}
	q.arm(q.now())
	q.mu.Unlock()
	q.count(added, 0)
}

// moveDue lets the first of the delayed items wait, and reports whether it did not.
func (q *Queue[K]) moveDue(now int64) bool {
	if !q.timed {
		now = 0
	}
	id := q.delays.heap.pop().id
	e := q.entries.at(id)
	t := e.late
	e.late = 0
	added := q.admit(id, e, t, now)
	q.line.drop(t)
	return added
}
