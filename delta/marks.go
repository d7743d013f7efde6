package delta

import "github.com/tarnproject/tarn/object"

// marks keeps, for each scope, where the producer stands, and which scopes moved
// since the last batch was taken.
type marks struct {
	at      []scopeMark
	byScope map[object.Scope]int
	last    int   // index of the scope used last; most FIFOs have just one
	moved   []int // indexes in at, in the order in which they first moved
	taken   []int // what the batch in flight took from moved
}

type scopeMark struct {
	object.Mark
	moved bool
}

// of returns the index of the scope's mark, which it makes if there is none.
func (m *marks) of(scope object.Scope) int {
	if m.last < len(m.at) && m.at[m.last].Scope == scope {
		return m.last
	}
	i, ok := m.byScope[scope]
	if !ok {
		i = len(m.at)
		if m.byScope == nil {
			m.byScope = make(map[object.Scope]int)
		}
		m.byScope[scope] = i
		m.at = append(m.at, scopeMark{Mark: object.Mark{Scope: scope}})
	}
	m.last = i
	return i
}

// event moves the scope's mark to an event's version, within its epoch.
func (m *marks) event(scope object.Scope, v object.Version) {
	if !v.Known() {
		return
	}
	i := m.of(scope)
	if at := &m.at[i]; !v.NotAfter(at.Version) {
		at.Version = v
		m.touch(i)
	}
}

// bookmark moves a mark to where a bookmark says; never back.
func (m *marks) bookmark(to object.Mark) {
	if !to.Version.Known() {
		return
	}
	i := m.of(to.Scope)
	at := &m.at[i]
	if to.Epoch < at.Epoch || to.Epoch == at.Epoch && to.Version.NotAfter(at.Version) {
		return
	}
	at.Mark = to
	m.touch(i)
}

// set puts a mark where a list says, which may be anywhere.
func (m *marks) set(to object.Mark) {
	i := m.of(to.Scope)
	m.at[i].Mark = to
	m.touch(i)
}

func (m *marks) touch(i int) {
	if !m.at[i].moved {
		m.at[i].moved = true
		m.moved = append(m.moved, i)
	}
}

// take appends the marks that moved to dst and remembers which they are.
func (m *marks) take(dst []object.Mark) []object.Mark {
	m.moved, m.taken = m.taken[:0], m.moved
	for _, i := range m.taken {
		m.at[i].moved = false
		dst = append(dst, m.at[i].Mark)
	}
	return dst
}

// putBack makes what was taken count as moved again, first.
func (m *marks) putBack() {
	newer := m.moved
	m.moved, m.taken = m.taken, nil
	for _, i := range newer {
		m.at[i].moved = false
	}
	for _, i := range m.moved {
		m.at[i].moved = true
	}
	for _, i := range newer {
		m.touch(i)
	}
	m.taken = newer[:0]
}
