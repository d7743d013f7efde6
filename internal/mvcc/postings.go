package mvcc

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// Postings map values of type K to the ids that have them: what an index is made of.
//
// The ids of a value stand in cells that are changed in place. A cell that some revision
// sees and another does not is loose: it has a mark, and a reader who meets the mark asks
// the object itself whether it has the value in his revision. All others, which is nearly
// all of them nearly all of the time, are just ids.
type Postings[K comparable] struct {
	history retirer
	table   atomic.Pointer[values[K]]
	order   *Order[*Members[K], K] // nil if the values have no order
	own     func(K) K
	moved   func(id uint32, to Place)

	// Of the writer:
	ids    ids
	all    []*Members[K] // by number
	vals   []K           // their values, side by side
	loose  map[member[K]]life
	coming []coming[K]
	// In the revision in preparation:
	fresh []standing[K]     // added
	left  []standing[K]     // taken away, and not loose before; without members if added again
	where map[member[K]]int // in left, once there are many
}

// Place is where an id stands: in which members, and in which of their cells. The zero
// Place is nowhere.
type Place struct{ members, cell uint32 } // members are counted from 1

// Pack returns the place as one word, 0 if it is nowhere.
func (p Place) Pack() uint64 { return uint64(p.members)<<32 | uint64(p.cell) }

// Unpack is the inverse of [Place.Pack].
func Unpack(word uint64) Place { return Place{members: uint32(word >> 32), cell: uint32(word)} }

// Nowhere reports whether p is the zero Place.
func (p Place) Nowhere() bool { return p.members == 0 }

// Members returns the number of the members that the place is in.
func (p Place) Members() uint32 { return p.members - 1 }

// A cell is 0, or an id plus 1, and marked while it is loose.
const looseMark = 1 << 31

type member[K comparable] struct {
	of *Members[K]
	id uint32
}

// life is the span of revisions in which a loose cell may count: from born, 0 if everybody
// sees it, up to died, 0 if it lives. An id that left and came back has had two lives; they
// are taken for one, and added is when the second began.
type life struct {
	born, added, died uint64
	cell              uint32
	retired           bool // a retire list has it, so that it need not be there twice
}

// standing is an id in a cell: with the mark of a loose one, or not.
type standing[K comparable] struct {
	member[K]
	cell uint32
	mark uint32
}

// coming is a loose cell that is to become an ordinary one when no revision before added
// is seen any more.
type coming[K comparable] struct {
	member[K]
	added uint64
}

// NewPostings returns postings without values, whose revisions h publishes. own makes the
// copy of a value that is kept; nil stands for keeping it as it is. sort orders the
// values; its zero value leaves them without order. moved is told when an id gets another
// place than [Postings.Add] returned for it.
func NewPostings[K comparable, P any](h *History[P], own func(K) K, sort Sorting[K], moved func(id uint32, to Place)) *Postings[K] {
	p := &Postings[K]{history: h, own: own, moved: moved, loose: map[member[K]]life{}}
	p.table.Store(newValues[K](maphash.MakeSeed(), 0))
	if sort.Compare != nil {
		p.order = NewOrder(sort, Keys[*Members[K], K]{Of: func(m *Members[K]) K { return m.value }})
	}
	return p
}

// Value returns the value of members by their number, for the writer.
func (p *Postings[K]) Value(members uint32) K { return p.vals[members] }

// Find returns the members of a value, nil if it has none.
func (p *Postings[K]) Find(k K) *Members[K] {
	return p.table.Load().lookup(k)
}

// Values calls yield for every value that some revision may see, until it returns false:
// in order, where there is one, and from *from on, if it is not nil.
func (p *Postings[K]) Values(from *K, yield func(K, *Members[K]) bool) {
	t := p.table.Load()
	if p.order == nil {
		for i := range t.each {
			if m := t.members[i].Load(); !yield(m.value, m) {
				return
			}
		}
		return
	}
	each := func(cells []Cell[*Members[K]], marks uint64) bool {
		for i, c := range cells {
			if !Gone(marks, i) && !yield(c.Elem.value, c.Elem) {
				return false
			}
		}
		return true
	}
	if from == nil {
		p.order.Leaves(each)
	} else {
		p.order.From(*from, each)
	}
}

// Add gives id, which does not have it, the value k in the revision in preparation.
func (p *Postings[K]) Add(k K, id uint32) Place {
	m := p.Find(k)
	if m == nil {
		m = p.create(k)
	}
	m.count.Add(1)
	at := member[K]{m, id}
	if cell, ok := p.unleave(at); ok {
		return Place{m.id + 1, cell}
	}
	if l, ok := p.loose[at]; ok {
		// It had the value and somebody still sees that: the cell lives again.
		l.added, l.died = p.history.Next(), 0
		p.loose[at] = l
		p.coming = append(p.coming, coming[K]{at, l.added})
		return Place{m.id + 1, l.cell}
	}
	cell := m.takeCell()
	(*m.cells.Load())[cell].Store(id + 1 | looseMark)
	p.fresh = append(p.fresh, standing[K]{at, cell, looseMark})
	return Place{m.id + 1, cell}
}

func (p *Postings[K]) create(k K) *Members[K] {
	if p.own != nil {
		k = p.own(k)
	}
	m := &Members[K]{in: p, value: k}
	m.cells.Store(new([]atomic.Uint32))
	var again bool
	if m.id, again = p.ids.take(); again {
		p.all[m.id], p.vals[m.id] = m, k
	} else {
		p.all, p.vals = append(p.all, m), append(p.vals, k)
	}
	t := p.table.Load()
	if t.full(1) {
		t = t.grown(1)
		p.table.Store(t)
	}
	t.insert(m)
	if p.order != nil {
		p.order.Insert(m, k)
	}
	return m
}

// Remove takes the value at a place from id in the revision in preparation. newborn says
// that id had no value before this revision.
func (p *Postings[K]) Remove(from Place, id uint32, newborn bool) {
	m := p.all[from.Members()]
	m.count.Add(-1)
	at := member[K]{m, id}
	l, ok := p.loose[at]
	if !ok && newborn {
		m.clear(from.cell) // nobody ever saw it
		return
	}
	was := (*m.cells.Load())[from.cell].Swap(id + 1 | looseMark)
	if !ok {
		// Most likely nobody will see it, once this revision is published.
		p.leave(standing[K]{at, from.cell, was & looseMark})
		return
	}
	l.died = p.history.Next()
	if !l.retired {
		l.retired = true
		p.history.retire(m, id, l.born<<1)
	}
	p.loose[at] = l
}

// fewLeft is up to how many are found faster by looking at all.
const fewLeft = 16

func (p *Postings[K]) leave(s standing[K]) {
	p.left = append(p.left, s)
	if len(p.left) == fewLeft+1 {
		p.where = make(map[member[K]]int)
		for i, s := range p.left {
			p.where[s.member] = i
		}
	} else if len(p.left) > fewLeft {
		p.where[s.member] = len(p.left) - 1
	}
}

// unleave gives an id its cell back that it left in the revision in preparation, as it was:
// to everybody else it never left.
func (p *Postings[K]) unleave(at member[K]) (cell uint32, ok bool) {
	i := -1
	if len(p.left) <= fewLeft {
		i = slices.IndexFunc(p.left, func(s standing[K]) bool { return s.member == at })
	} else if j, ok := p.where[at]; ok {
		i = j
		delete(p.where, at)
	}
	if i < 0 {
		return 0, false
	}
	s := p.left[i]
	p.left[i] = standing[K]{}
	(*at.of.cells.Load())[s.cell].Store(at.id + 1 | s.mark)
	return s.cell, true
}

// Settle takes the marks from the cells that every revision sees alike. It is to be called
// after each publication and sweep.
func (p *Postings[K]) Settle() {
	if len(p.fresh) == 0 && len(p.left) == 0 && len(p.coming) == 0 {
		return
	}
	oldest, now := p.history.Oldest(), p.history.Next()-1
	for _, s := range p.left {
		switch {
		case s.of == nil: // it came back
		case oldest == now:
			s.of.clear(s.cell)
		default:
			p.loose[s.member] = life{died: now, cell: s.cell, retired: true}
			p.history.retire(s.of, s.id, 0)
		}
	}
	p.left, p.where = emptied(p.left), nil
	for _, f := range p.fresh {
		cells := *f.of.cells.Load()
		if int(f.cell) >= len(cells) || cells[f.cell].Load() != f.id+1|looseMark {
			continue // it has left again
		}
		if _, ok := p.loose[f.member]; ok {
			continue // likewise, or come back since
		}
		if oldest == now {
			cells[f.cell].Store(f.id + 1)
		} else {
			p.loose[f.member] = life{born: now, added: now, cell: f.cell}
			p.coming = append(p.coming, coming[K]{f.member, now})
		}
	}
	p.fresh = emptied(p.fresh)
	done := 0
	for ; done < len(p.coming) && p.coming[done].added <= oldest; done++ {
		c := p.coming[done]
		if l, ok := p.loose[c.member]; ok && l.died == 0 && l.added == c.added {
			(*c.of.cells.Load())[l.cell].Store(c.id + 1)
			delete(p.loose, c.member)
		}
	}
	p.coming = slices.Delete(p.coming, 0, done)
	if len(p.coming) > 2*len(p.loose)+64 {
		p.coming = slices.DeleteFunc(p.coming, func(c coming[K]) bool {
			l, ok := p.loose[c.member]
			return !ok || l.died != 0 || l.added != c.added
		})
	}
}

// emptied returns s without its elements, and lets go of what an exceptional batch has made
// large.
func emptied[E any](s []E) []E {
	if cap(s) > 4096 {
		return nil
	}
	clear(s)
	return s[:0]
}
