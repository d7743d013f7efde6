package mvcc

import (
	"hash/maphash"
	"sync/atomic"
)

// Members are the ids that have one value.
type Members[K comparable] struct {
	cells atomic.Pointer[[]atomic.Uint32]
	count atomic.Int32 // in the newest revision

	value K

	// Of the writer:
	in   *Postings[K]
	slot uint64
	id   uint32
	used int32
	hole uint32 // where to look for the next empty cell
}

// Count returns how many ids have the value in the newest revision, published or not.
func (m *Members[K]) Count() int {
	if m == nil {
		return 0
	}
	return int(m.count.Load())
}

// Visit calls yield for the ids that have the value in a reader's revision, in no
// particular order, until it returns false. sees tells whether the object of an id has
// the value in that revision.
func (m *Members[K]) Visit(sees func(id uint32) bool, yield func(id uint32) bool) bool {
	if m == nil {
		return true
	}
	cells := *m.cells.Load()
	for i := range cells {
		c := cells[i].Load()
		if c == 0 || c&looseMark != 0 && !sees(c&^looseMark-1) {
			continue
		}
		if !yield(c&^looseMark - 1) {
			return false
		}
	}
	return true
}

// takeCell returns an empty cell.
func (m *Members[K]) takeCell() uint32 {
	cells := *m.cells.Load()
	m.used++
	if int(m.used) > len(cells) {
		grown := make([]atomic.Uint32, len(cells)+len(cells)/8+2)
		copy(grown, cells)
		m.cells.Store(&grown)
		m.hole = uint32(len(cells)) + 1
		return uint32(len(cells))
	}
	// Mostly it is the next one, or one that was emptied just now. Going round finds many in
	// one turn.
	at := int(m.hole)
	for ; at < len(cells) && cells[at].Load() != 0; at++ {
	}
	if at == len(cells) {
		for at = 0; cells[at].Load() != 0; at++ {
		}
	}
	m.hole = uint32(at) + 1
	return uint32(at)
}

// cut clears the cell of an id that has left, when nobody sees it any more.
func (m *Members[K]) cut(id uint32, _ uint64, _ bool) {
	at := member[K]{m, id}
	l, ok := m.in.loose[at]
	switch {
	case !ok: // it came back, and everybody sees it
	case l.died == 0: // it came back
		l.retired = false
		m.in.loose[at] = l
	case m.in.history.Seen(l.born, l.died): // and left again
		m.in.history.retire(m, id, l.born<<1)
	default:
		delete(m.in.loose, at)
		m.clear(l.cell)
	}
}

// clear empties a cell, and drops the value with the last.
func (m *Members[K]) clear(cell uint32) {
	cells := *m.cells.Load()
	cells[cell].Store(0)
	m.hole = cell
	m.used--
	p := m.in
	if m.used > 0 {
		if len(cells) >= 64 && int(m.used) == len(cells)/4 {
			m.shrink()
		}
		return
	}
	t := p.table.Load()
	if p.order != nil {
		p.order.Remove(m, m.value)
	}
	t.drop(m.slot)
	var none K
	p.all[m.id], p.vals[m.id] = nil, none
	p.ids.give(m.id)
	if t.sparse() {
		p.table.Store(t.grown(0))
	}
}

// shrink moves the ids to fewer cells, unless some are loose, whose cells are known
// elsewhere.
func (m *Members[K]) shrink() {
	old := *m.cells.Load()
	small := make([]atomic.Uint32, m.used+m.used/8+1)
	for i := range old {
		if c := old[i].Load(); c&looseMark != 0 {
			return
		}
	}
	next := 0
	for i := range old {
		if c := old[i].Load(); c != 0 {
			small[next].Store(c)
			m.in.moved(c-1, Place{m.id + 1, uint32(next)})
			next++
		}
	}
	m.hole = uint32(next)
	m.cells.Store(&small)
}

// values is the hash table of [Postings].
type values[K comparable] struct {
	slots
	seed    maphash.Seed
	members []atomic.Pointer[Members[K]]
}

func newValues[K comparable](seed maphash.Seed, keys int) *values[K] {
	t := &values[K]{slots: newSlots(keys), seed: seed}
	t.members = make([]atomic.Pointer[Members[K]], t.size())
	return t
}

// grown returns a copy with room for n more values.
func (t *values[K]) grown(n int) *values[K] {
	c := newValues[K](t.seed, t.keys+n)
	for i := range t.each {
		c.insert(t.members[i].Load())
	}
	return c
}

func (t *values[K]) insert(m *Members[K]) {
	h := fold(maphash.Comparable(t.seed, m.value))
	m.slot = t.vacant(h)
	t.members[m.slot].Store(m)
	t.use(m.slot, h)
}

// lookup returns the members of k, nil if it has none.
func (t *values[K]) lookup(k K) *Members[K] {
	h := fold(maphash.Comparable(t.seed, k))
	tag := tagOf(h)
	for g := t.home(h); ; g = t.after(g) {
		word := t.tags[g].Load()
		for f := matching(word, tag); f != 0; f &= f - 1 {
			if m := t.members[slotIn(g, f)].Load(); m.value == k {
				return m
			}
		}
		if matching(word, tagEmpty) != 0 {
			return nil
		}
	}
}
