package workqueue

import "slices"

// keepItems is for how many items memory is kept in any case, about a megabyte. Bursts up to
// that size never allocate again: to fail, retry and forget 10,000 items over and over took
// twice the CPU time when the memory was given back each time.
const keepItems = 16 << 10

// shrinks reports whether what has room for so many items, of which some are left, is to be
// made again for those. Between two times at least three quarters of the room were given
// back, which pays for moving the last quarter.
func shrinks(left, room int) bool { return room > keepItems && 4*left <= room }

// shrink moves everything to as much memory as it needs. Records get new numbers.
func (q *Queue[K]) shrink() {
	lane := q.line.shrinkLanes()
	entry, waiter := q.entries.compact(), q.line.waiters.compact()

	for size := len(q.index.cells); size > leastCells && 4*q.index.n < size; size /= 2 {
		q.index.cells = q.index.cells[:size/2]
	}
	q.index.cells = make([]cell, len(q.index.cells))
	for id, e := range q.entries.all() {
		q.index.put(cell{e.hash, id})
		e.late = tagOf(lane[e.late.lane()], e.late.reason())
		switch {
		case e.run() != 0:
		case q.line.plain:
			e.place = e.place&(1<<chainShift-1) | entry[e.place>>chainShift]<<chainShift
		default:
			e.place = waiter[e.place]
		}
	}

	q.runs = slices.Clone(q.runs)
	for i := range q.runs {
		r := &q.runs[i]
		r.entry, r.tag = entry[r.entry], tagOf(lane[r.tag.lane()], r.tag.reason())
		if !q.line.plain {
			r.dirty = waiter[r.dirty]
		}
	}

	l := &q.line
	for _, s := range l.waiters.all() {
		s.entry, s.tag = entry[s.entry], tagOf(lane[s.tag.lane()], s.tag.reason())
		s.next, s.prev, s.older, s.newer = waiter[s.next], waiter[s.prev], waiter[s.older], waiter[s.newer]
	}
	for i := range l.lanes {
		n := &l.lanes[i]
		n.head, n.tail = waiter[n.head], waiter[n.tail]
	}
	l.oldest, l.newest = waiter[l.oldest], waiter[l.newest]
	l.chain.head, l.chain.tail = entry[l.chain.head], entry[l.chain.tail]

	h := &q.delays.heap
	h.nodes = slices.Clone(h.nodes)
	for i := range h.nodes {
		h.nodes[i].id = entry[h.nodes[i].id]
	}
}

// shrinkLanes forgets the lanes that nothing refers to and returns the new number of each
// of the others.
func (l *line) shrinkLanes() (moved []uint32) {
	l.sweep()
	old := l.lanes
	moved = make([]uint32, len(old))
	l.lanes, l.freeLanes = make([]lane, 0, len(old)-len(l.freeLanes)), nil
	for id, n := range old {
		if n.used {
			moved[id] = uint32(len(l.lanes))
			l.lanes = append(l.lanes, n)
		}
	}
	for i := range l.lanes {
		l.lanes[i].next, l.lanes[i].prev = moved[l.lanes[i].next], moved[l.lanes[i].prev]
	}
	for i := range l.levels {
		l.levels[i].turn = moved[l.levels[i].turn]
	}
	if l.names != nil {
		l.names = make(map[laneName]uint32, len(l.lanes))
		for id, n := range l.lanes[1:] { // lane 0 is not looked up
			l.names[n.laneName] = uint32(id + 1)
		}
	}
	return moved
}
