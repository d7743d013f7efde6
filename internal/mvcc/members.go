package mvcc

import "sync/atomic"

// Members is an index value and the ids that have it.
type Members[K comparable] struct {
	in    *Postings[K]
	value K
	ids   cells
	count atomic.Int32 // ids that have the value in the newest revision
	id    uint32       // the number of the value
}

// Count returns how many ids have the value in the newest revision, published or not.
func (m *Members[K]) Count() int {
	if m == nil {
		return 0
	}
	return int(m.count.Load())
}

// Visit calls yield for the ids that have the value in a reader's revision, without order, until
// yield returns false. sees reports whether an id has the value in that revision, by computing
// the values of its object; Visit calls it for loose cells only.
func (m *Members[K]) Visit(sees func(id uint32) bool, yield func(id uint32) bool) bool {
	if m == nil {
		return true
	}
	array := m.ids.load()
	for i := range array {
		c := array[i].Load()
		if c == 0 || c&looseMark != 0 && !sees(c&^looseMark-1) {
			continue
		}
		if !yield(c&^looseMark - 1) {
			return false
		}
	}
	return true
}

// cut implements cutter: it clears the cell of an id that lost the value, once no revision sees
// it there.
func (m *Members[K]) cut(id uint32, _ uint64, _ bool) {
	at := member[K]{m, id}
	l, ok := m.in.loose[at]
	switch {
	case !ok: // it has the value again, and every revision sees that
	case l.died == 0: // it has the value again
		l.retired = false
		m.in.loose[at] = l
	case m.in.history.Seen(l.born, l.died): // it had the value again, and lost it once more
		m.in.history.retire(m, id, l.born<<1)
	default:
		delete(m.in.loose, at)
		m.clear(l.cell)
	}
}

// clear empties a cell. With the last one the value disappears.
func (m *Members[K]) clear(cell uint32) {
	m.ids.remove(cell)
	if m.ids.used == 0 {
		m.in.drop(m)
	} else if m.ids.sparse() {
		m.ids.shrink(func(id, cell uint32) { m.in.moved(id, Place{m.id + 1, cell}) })
	}
}
