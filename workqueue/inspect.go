package workqueue

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// State is the state of an item. An item can have several at a time: being processed, to be taken
// again, and delayed.
type State uint8

// The states.
const (
	// Waiting items can be taken.
	Waiting State = iota + 1
	// Dirty items were added while being processed: they will wait after Done.
	Dirty
	// Processing items were taken and are not Done.
	Processing
	// Delayed items will wait when they are due.
	Delayed
	// Refused items were added after ShutDown and are not in the queue.
	Refused
)

// String returns the state's name in lower case.
func (s State) String() string {
	names := [...]string{Waiting: "waiting", Dirty: "dirty", Processing: "processing", Delayed: "delayed", Refused: "refused"}
	if int(s) < len(names) && names[s] != "" {
		return names[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Reason is how an item came to be in its state.
type Reason uint8

// The reasons. There are no more than four, see tag.
const (
	Added            Reason = iota // by Add
	AddedAfter                     // by AddAfter
	AddedRateLimited               // by AddRateLimited
)

// String returns the reason in lower case.
func (r Reason) String() string {
	names := [...]string{Added: "added", AddedAfter: "added after a delay", AddedRateLimited: "rate-limited"}
	if int(r) < len(names) {
		return names[r]
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// Item is an item in one of its states.
type Item[K comparable] struct {
	Key      K
	State    State
	Reason   Reason // how it was added
	Priority int
	// Since is when it was added (Waiting, Dirty) or taken (Processing); zero for Delayed. If
	// times are not recorded (see [Options.Times]), it is zero, or for Processing the time of
	// the first call of Snapshot, Inspect or Stats.
	Since time.Time
	// Due is when a Delayed item begins to wait.
	Due time.Time
}

// Snapshot is the content of a queue at one time. An item with several states is in several
// lists.
type Snapshot[K comparable] struct {
	Waiting    []Item[K] // in order of arrival
	Dirty      []Item[K] // in the order in which they were taken
	Processing []Item[K] // the longest running first
	Delayed    []Item[K] // the first to be due first
}

// Snapshot returns a copy of the whole queue. It holds the lock for as long as that takes, so it
// is for debugging and tests; use [Queue.Stats] for monitoring.
func (q *Queue[K]) Snapshot() Snapshot[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look()
	s := Snapshot[K]{
		Waiting:    make([]Item[K], 0, q.line.ready),
		Dirty:      make([]Item[K], 0, q.dirty),
		Processing: make([]Item[K], 0, len(q.runs)),
		Delayed:    make([]Item[K], 0, len(q.delays.heap.nodes)),
	}
	for id := q.line.chain.head; id != 0; id = q.entries.at(id).place >> chainShift {
		s.Waiting = append(s.Waiting, q.waiting(id))
	}
	for id := q.line.oldest; id != 0; id = q.line.waiters.at(id).newer {
		s.Waiting = append(s.Waiting, q.waiting(q.line.waiters.at(id).entry))
	}
	for _, r := range slices.SortedFunc(slices.Values(q.runs), func(a, b run) int { return cmp.Compare(a.order, b.order) }) {
		s.Processing = append(s.Processing, q.running(&r))
		if r.dirty != 0 {
			s.Dirty = append(s.Dirty, q.waiting(r.entry))
		}
	}
	for i := range q.delays.heap.nodes {
		s.Delayed = append(s.Delayed, q.delayed(i))
	}
	slices.SortStableFunc(s.Delayed, func(a, b Item[K]) int { return a.Due.Compare(b.Due) })
	return s
}

// Inspect returns the item in each of its states; nothing if the queue does not have it.
func (q *Queue[K]) Inspect(item K) []Item[K] {
	hash := hashOf(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	id, _ := q.find(item, hash)
	if id == 0 {
		return nil
	}
	q.look()
	var found []Item[K]
	e := q.entries.at(id)
	if run := e.run(); run != 0 {
		found = append(found, q.running(&q.runs[run-1]))
		if q.runs[run-1].dirty != 0 {
			found = append(found, q.waiting(id))
		}
	} else if e.place != 0 {
		found = append(found, q.waiting(id))
	}
	if e.slot != 0 {
		found = append(found, q.delayed(int(e.slot-1)))
	}
	return found
}

// look gives a time to the items that are processed and have none, so that a caller that
// looks twice sees for how long at least. It returns the present time.
func (q *Queue[K]) look() int64 {
	now := q.now()
	for i := range q.runs {
		if q.runs[i].started == 0 {
			q.runs[i].started = now
		}
	}
	return now
}

// waiting returns an entry that waits or will again.
func (q *Queue[K]) waiting(id uint32) Item[K] {
	e := q.entries.at(id)
	i, waiter := Item[K]{Key: e.key, State: Waiting}, e.place
	if run := e.run(); run != 0 {
		i.State, waiter = Dirty, q.runs[run-1].dirty
	}
	if q.line.plain {
		i.Reason = chainReason(waiter)
		return i
	}
	s := q.line.waiters.at(waiter)
	i.Reason, i.Priority, i.Since = s.tag.reason(), q.line.priority(s.tag), q.at(s.since)
	return i
}

func (q *Queue[K]) running(r *run) Item[K] {
	return Item[K]{
		Key: q.entries.at(r.entry).key, State: Processing, Reason: r.tag.reason(),
		Priority: q.line.priority(r.tag), Since: q.at(r.started),
	}
}

func (q *Queue[K]) delayed(i int) Item[K] {
	n := q.delays.heap.nodes[i]
	e := q.entries.at(n.id)
	return Item[K]{
		Key: e.key, State: Delayed, Reason: e.late.reason(),
		Priority: q.line.priority(e.late), Due: q.at(n.due),
	}
}

// Len returns the number of items that can be taken. Other goroutines may change it at any time:
// to take an item only if there is one, call GetContext.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.ready
}

// Stats is the size of a queue at one time, and its totals.
type Stats struct {
	// Waiting, Dirty, Processing and Delayed are the numbers of items in each state.
	// Waiting and Dirty together are client-go's depth.
	Waiting, Dirty, Processing, Delayed int
	// Adds, Retries and Dropped are the totals that are also reported to [Metrics].
	Adds, Retries, Dropped uint64
	// Unfinished is the sum of the times that items have been in processing, Longest the
	// longest of them. If times are not recorded, they count from the first call; see
	// [Item].
	Unfinished, Longest time.Duration
	// Panics is how often a function in the options panicked; see [Options.OnPanic].
	Panics uint64
}

// Stats returns the current figures. It is cheap.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		Waiting: q.line.ready, Dirty: q.dirty, Processing: len(q.runs), Delayed: len(q.delays.heap.nodes),
		Adds: q.adds, Retries: q.retries, Dropped: q.dropped, Panics: q.panics.Load(),
	}
	if len(q.runs) > 0 {
		now := q.look()
		s.Longest = time.Duration(now - q.longest().started)
		for _, r := range q.runs {
			s.Unfinished += time.Duration(now - r.started)
		}
	}
	return s
}
