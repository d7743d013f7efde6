package delta

import "github.com/tarnproject/tarn/object"

// marks keeps the producer's mark of each scope, and which scopes advanced since the last batch
// was taken. The cost of an operation does not depend on the number of scopes.
type marks struct {
	byScope map[object.Scope]*scopeMark
	last    *scopeMark   // the one used last; most FIFOs have just one
	moved   []*scopeMark // in the order in which they first moved
	taken   []*scopeMark // what the batch in flight took from moved
}

type scopeMark struct {
	object.Mark
	moved bool
	// left: the last list had neither items nor a version, so nothing is known of the scope.
	// The mark is dropped when the consumer knows that as well.
	left bool
}

// of returns the scope's mark, which it makes if there is none.
func (m *marks) of(scope object.Scope) *scopeMark {
	if m.last != nil && m.last.Scope == scope {
		return m.last
	}
	at, ok := m.byScope[scope]
	if !ok {
		if m.byScope == nil {
			m.byScope = make(map[object.Scope]*scopeMark)
		}
		at = &scopeMark{Mark: object.Mark{Scope: scope}}
		m.byScope[scope] = at
	}
	m.last = at
	return at
}

// move moves a mark; never back.
func (m *marks) move(to object.Mark) {
	if !to.Version.Known() {
		return
	}
	at := m.of(to.Scope)
	if to.Epoch < at.Epoch || to.Epoch == at.Epoch && to.Version.NotAfter(at.Version) {
		return
	}
	at.Mark = to
	m.touch(at)
}

// list puts a mark where a list says, which may be anywhere.
func (m *marks) list(to object.Mark, items int) {
	at := m.of(to.Scope)
	at.Mark = to
	m.touch(at)
	at.left = items == 0 && !to.Version.Known()
}

func (m *marks) touch(at *scopeMark) {
	at.left = false
	if !at.moved {
		at.moved = true
		m.moved = append(m.moved, at)
	}
}

// take appends the marks that moved to dst and remembers which they are.
func (m *marks) take(dst []object.Mark) []object.Mark {
	m.moved, m.taken = m.taken[:0], m.moved
	for _, at := range m.taken {
		at.moved = false
		dst = append(dst, at.Mark)
	}
	return dst
}

// done records that the consumer has what was taken.
func (m *marks) done() {
	for _, at := range m.taken {
		if at.left && !at.moved {
			delete(m.byScope, at.Scope)
			m.last = nil
		}
	}
	clear(m.taken)
	m.taken = m.taken[:0]
}

// putBack makes what was taken count as moved again, first.
func (m *marks) putBack() {
	newer := m.moved
	m.moved, m.taken = m.taken, nil
	for _, at := range newer {
		at.moved = false
	}
	for _, at := range m.moved {
		at.moved = true
	}
	for _, at := range newer {
		if !at.moved {
			at.moved = true
			m.moved = append(m.moved, at)
		}
	}
	m.taken = newer[:0]
}
