package workqueue

import (
	"cmp"
	"slices"
)

// line is everything that waits to be taken.
//
// Each waiting item has a waiter, and each waiter is in two lists: that of its lane, which
// is the items of one priority and one group, and that of all arrivals. The lanes of a
// priority that have items form a ring, which is a round between groups.
// The next to be taken is the first of the lane whose turn it is at the highest
// priority; or, when it is ageing's turn, the first of all arrivals.
//
// A queue that uses neither priorities nor groups nor times needs none of that. Its
// line is plain: a chain of entries, in which an item costs nothing instead of 32 bytes.
//
// Rejected: a heap or a tree ordered by priority, group and time, as in
// controller-runtime. It costs a comparison for every level at every step, and
// ageing changes the order of items without an operation on them.
type line struct {
	plain bool
	byAge bool  // the last one taken was the oldest
	ready int   // items that can be taken, plain or not
	chain chain // while plain

	waiters slab[waiter]
	lanes   []lane  // lane 0 is priority 0 of the group ""; it is not in names
	levels  []level // level 0 is priority 0
	// order has the levels with waiting items, and perhaps empty ones, by priority.
	order []uint32

	oldest, newest uint32 // ends of the list of arrivals

	names      map[laneName]uint32
	priorities map[int]uint32
	idle       int // lanes that nothing refers to
	freeLanes  []uint32
	freeLevels []uint32
	last       uint32 // the lane that was looked up last

	// from is when times began to be recorded. Items that were added before have none.
	from int64
}

// waiter is one waiting item, or one that will wait again after Done and is in no list.
type waiter struct {
	since        int64 // when it was added, on the queue's clock
	ready        int64 // when a worker could first take it: since, or the Done of its last run
	entry        uint32
	tag          tag
	next, prev   uint32 // in its lane
	older, newer uint32 // of all arrivals
}

// lane is a FIFO of the items of one group at one priority.
type lane struct {
	laneName
	level      uint32
	head, tail uint32
	next, prev uint32 // of the level's ring, while the lane has items
	refs       int    // tags that name the lane
	used       bool
}

type laneName struct {
	priority int
	group    string
}

// level is a priority.
type level struct {
	priority int
	turn     uint32 // the lane whose turn it is, while n > 0
	n        int    // waiting
	lanes    int
	ordered  bool // in line.order
}

// init makes lane 0.
func (l *line) init() {
	l.lanes = []lane{{used: true, refs: 1}}
	l.levels = []level{{lanes: 1}}
}

// lane returns the lane of a priority and a group, which is made if need be.
func (l *line) lane(priority int, group string) uint32 {
	name := laneName{priority, group}
	if last := &l.lanes[l.last]; last.used && last.laneName == name {
		return l.last
	}
	if name == (laneName{}) {
		return 0
	}
	id, ok := l.names[name]
	if !ok {
		id = l.newLane(name)
	}
	l.last = id
	return id
}

func (l *line) newLane(name laneName) uint32 {
	if l.names == nil {
		l.names, l.priorities = map[laneName]uint32{}, map[int]uint32{0: 0}
	}
	v, ok := l.priorities[name.priority]
	if !ok {
		if n := len(l.freeLevels); n > 0 {
			v, l.freeLevels = l.freeLevels[n-1], l.freeLevels[:n-1]
		} else {
			l.levels = append(l.levels, level{})
			v = uint32(len(l.levels) - 1)
		}
		l.levels[v].priority = name.priority
		l.priorities[name.priority] = v
	}
	l.levels[v].lanes++
	var id uint32
	if n := len(l.freeLanes); n > 0 {
		id, l.freeLanes = l.freeLanes[n-1], l.freeLanes[:n-1]
	} else {
		l.lanes = append(l.lanes, lane{})
		id = uint32(len(l.lanes) - 1)
	}
	l.lanes[id] = lane{laneName: name, level: v, used: true}
	l.idle++
	l.names[name] = id
	return id
}

// hold adds a reference to the lane of a tag; drop removes it.
func (l *line) hold(t tag) {
	if t.lane() == 0 {
		return // stays anyway
	}
	n := &l.lanes[t.lane()]
	if n.refs == 0 {
		l.idle--
	}
	n.refs++
}

func (l *line) drop(t tag) {
	if t.lane() == 0 {
		return
	}
	n := &l.lanes[t.lane()]
	n.refs--
	if n.refs == 0 {
		l.idle++
		if l.idle > 64 && 2*l.idle > len(l.lanes)-len(l.freeLanes) {
			l.sweep()
		}
	}
}

// sweep forgets the lanes that nothing refers to. It is called when they are the most,
// so each lane that is made pays for it once.
func (l *line) sweep() {
	for id := range l.lanes {
		n := &l.lanes[id]
		if !n.used || n.refs > 0 {
			continue
		}
		delete(l.names, n.laneName)
		v := &l.levels[n.level]
		if v.lanes--; v.lanes == 0 && n.level != 0 {
			l.order = slices.DeleteFunc(l.order, func(o uint32) bool { return o == n.level })
			delete(l.priorities, v.priority)
			*v = level{}
			l.freeLevels = append(l.freeLevels, n.level)
		}
		*n = lane{}
		l.freeLanes = append(l.freeLanes, uint32(id))
	}
	l.idle, l.last = 0, 0
}

// priority returns the priority of a tag's lane.
func (l *line) priority(t tag) int { return l.lanes[t.lane()].priority }

// newWaiter makes a waiter that is in no list. It holds the tag.
func (l *line) newWaiter(entry uint32, t tag, now int64) uint32 {
	l.hold(t)
	id := l.waiters.take()
	s := l.waiters.at(id)
	s.since, s.entry, s.tag = now, entry, t
	return id
}

// enqueue lets a waiter wait, behind all others.
func (l *line) enqueue(id uint32, now int64) {
	s := l.waiters.at(id)
	s.ready = now
	s.older, s.newer = l.newest, 0
	if l.newest != 0 {
		l.waiters.at(l.newest).newer = id
	} else {
		l.oldest = id
	}
	l.newest = id
	l.enter(id, s)
}

// dequeue takes a waiter out of all lists.
func (l *line) dequeue(id uint32) {
	s := l.waiters.at(id)
	if s.older != 0 {
		l.waiters.at(s.older).newer = s.newer
	} else {
		l.oldest = s.newer
	}
	if s.newer != 0 {
		l.waiters.at(s.newer).older = s.older
	} else {
		l.newest = s.older
	}
	l.leave(s)
}

// enter puts a waiter at the end of its lane.
func (l *line) enter(id uint32, s *waiter) {
	at := s.tag.lane()
	n := &l.lanes[at]
	v := &l.levels[n.level]
	s.next, s.prev = 0, n.tail
	if n.tail != 0 {
		l.waiters.at(n.tail).next = id
	} else {
		n.head = id
		l.join(at, n, v)
	}
	n.tail = id
	v.n++
	if !v.ordered {
		v.ordered = true
		i, _ := slices.BinarySearchFunc(l.order, v.priority, func(o uint32, p int) int {
			return cmp.Compare(l.levels[o].priority, p)
		})
		l.order = slices.Insert(l.order, i, n.level)
	}
}

// join puts a lane at the end of its level's round.
func (l *line) join(at uint32, n *lane, v *level) {
	if v.n == 0 {
		n.next, n.prev, v.turn = at, at, at
		return
	}
	next := &l.lanes[v.turn]
	n.next, n.prev = v.turn, next.prev
	l.lanes[next.prev].next = at
	next.prev = at
}

// leave takes a waiter out of its lane.
func (l *line) leave(s *waiter) {
	at := s.tag.lane()
	n := &l.lanes[at]
	v := &l.levels[n.level]
	if s.prev != 0 {
		l.waiters.at(s.prev).next = s.next
	} else {
		n.head = s.next
	}
	if s.next != 0 {
		l.waiters.at(s.next).prev = s.prev
	} else {
		n.tail = s.prev
	}
	v.n--
	if n.head == 0 { // and out of the ring
		if v.turn == at {
			v.turn = n.next
		}
		l.lanes[n.prev].next = n.next
		l.lanes[n.next].prev = n.prev
	}
}

// raise moves a waiter to a lane of higher priority. What had arrived before it still has.
func (l *line) raise(id uint32, t tag, waits bool) {
	s := l.waiters.at(id)
	if l.priority(t) <= l.priority(s.tag) {
		return
	}
	was := s.tag
	l.hold(t)
	if waits {
		l.leave(s)
	}
	s.tag = t
	if waits {
		l.enter(id, s)
	}
	l.drop(was)
}

// pick returns the waiter that is next, of at least one. If age is positive, now must be
// the time.
func (l *line) pick(now, age int64) uint32 {
	v := &l.levels[l.order[len(l.order)-1]]
	for v.n == 0 {
		v.ordered = false
		l.order = l.order[:len(l.order)-1]
		v = &l.levels[l.order[len(l.order)-1]]
	}
	first := l.lanes[v.turn].head
	if first == l.oldest {
		l.byAge = true
	} else if !l.byAge && age > 0 && now-max(l.from, l.waiters.at(l.oldest).ready) >= age {
		l.byAge = true
		return l.oldest
	} else {
		l.byAge = false
	}
	v.turn = l.lanes[v.turn].next
	return first
}
