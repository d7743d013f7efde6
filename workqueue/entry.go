package workqueue

import "hash/maphash"

// entry is the record of one item: its key, its place among the items that wait or are
// processed, and its place among those that are delayed. Place 0 is none. An item without
// a place has no entry.
type entry[K comparable] struct {
	key   K
	hash  uint32
	place uint32 // its waiter, see line; its place in a chain; or its run, with the bit processing
	slot  uint32 // its place in the heap of delays, plus 1
	late  tag    // of the delay
}

// processing is the bit that distinguishes the number of a run from that of a waiter.
const processing = 1 << 31

// run returns the number of the entry's run, 0 if it is not being processed.
func (e *entry[K]) run() uint32 {
	if e.place&processing == 0 {
		return 0
	}
	return e.place &^ processing
}

// tag says how an item is to wait: in which lane, and for what reason.
type tag uint32

const reasonBits = 2

func tagOf(lane uint32, r Reason) tag { return tag(lane<<reasonBits | uint32(r)) }
func (t tag) lane() uint32            { return uint32(t >> reasonBits) }
func (t tag) reason() Reason          { return Reason(t & (1<<reasonBits - 1)) }

// index finds entries by key: an open-addressing table of their numbers. Rejected: a Go
// map, which holds every key a second time. For keys of two strings that is 63 bytes an item
// instead of 10, and a waiting item would take more memory than in client-go.
type index struct {
	cells []cell // a power of two, at least 3 of 16 free
	n     int
}

type cell struct {
	hash uint32
	id   uint32 // 0: the cell is free
}

const leastCells = 16

var hashSeed = maphash.MakeSeed()

func hashOf[K comparable](key K) uint32 { return uint32(maphash.Comparable(hashSeed, key)) }

// room makes sure that another entry can be put in.
func (x *index) room() {
	if !x.holds(x.n + 1) {
		x.resize(max(leastCells, 2*len(x.cells)))
	}
}

// holds reports whether there are cells for n entries.
func (x *index) holds(n int) bool { return 16*n <= 13*len(x.cells) }

func (x *index) resize(size int) {
	old := x.cells
	x.cells = make([]cell, size)
	for _, c := range old {
		if c.id != 0 {
			x.put(c)
		}
	}
}

// put puts a cell where its hash belongs.
func (x *index) put(c cell) {
	i := x.home(c.hash)
	for x.cells[i].id != 0 {
		i = x.after(i)
	}
	x.cells[i] = c
}

func (x *index) home(hash uint32) int { return int(hash) & (len(x.cells) - 1) }
func (x *index) after(i int) int      { return (i + 1) & (len(x.cells) - 1) }

// remove frees cell i and moves those up that had to give way to it.
func (x *index) remove(i int) {
	x.n--
	for j := x.after(i); x.cells[j].id != 0; j = x.after(j) {
		// j may move to i unless its home lies cyclically in (i, j].
		h := x.home(x.cells[j].hash)
		if (j-h)&(len(x.cells)-1) >= (j-i)&(len(x.cells)-1) {
			x.cells[i] = x.cells[j]
			i = j
		}
	}
	x.cells[i] = cell{}
}

// cellOf returns the cell of an entry that has one.
func (x *index) cellOf(id, hash uint32) int {
	i := x.home(hash)
	for x.cells[i].id != id {
		i = x.after(i)
	}
	return i
}

// find returns the item's entry, or 0 and the cell that it would take.
func (q *Queue[K]) find(item K, hash uint32) (id uint32, at int) {
	mask := uint32(len(q.index.cells) - 1)
	for i := hash; ; i++ {
		c := q.index.cells[i&mask]
		if c.id == 0 || c.hash == hash && q.entries.at(c.id).key == item {
			return c.id, int(i & mask)
		}
	}
}

// entry returns the item's entry, which is made if there is none. The caller sees to
// it that the entry has a reason to exist when the lock is released.
func (q *Queue[K]) entry(item K, hash uint32) (uint32, *entry[K]) {
	q.index.room()
	id, at := q.find(item, hash)
	if id != 0 {
		return id, q.entries.at(id)
	}
	id = q.entries.take()
	q.index.cells[at] = cell{hash: hash, id: id}
	q.index.n++
	e := q.entries.at(id)
	e.key, e.hash = item, hash
	return id, e
}

// forget releases an entry, which must be nowhere any more.
func (q *Queue[K]) forget(id uint32) {
	q.index.remove(q.index.cellOf(id, q.entries.at(id).hash))
	q.entries.release(id)
	if shrinks(q.entries.live, q.entries.room()) {
		q.shrink()
	}
}
