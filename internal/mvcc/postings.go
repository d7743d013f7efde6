package mvcc

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// Postings maps values of type K to the ids that have them: the structure of an index.
//
// There is one set of ids for each value, not one for each revision. An id that some revision
// sees there and another does not is in a loose cell. A reader that finds a loose cell asks the
// object whether it has the value in the reader's revision. Nearly all cells are not loose, and
// a reader takes their ids as they are.
//
// Find and Values are for any goroutine. All other methods are for the writer.
type Postings[K comparable] struct {
	history retirer
	seed    maphash.Seed
	compare func(a, b K) int // nil if the values have no order
	own     func(K) K
	moved   func(id uint32, to Place)
	table   atomic.Pointer[table]                        // from values to their numbers
	all     atomic.Pointer[[]atomic.Pointer[Members[K]]] // by number
	created atomic.Uint64                                // values created so far
	sorted  atomic.Pointer[sortedValues[K]]

	// Writer only:
	numbers ids
	values  []K // by number, side by side, so that comparing one touches no Members
	loose   map[member[K]]life
	coming  []coming[K]
	// In the revision in preparation:
	fresh []standing[K]     // added
	left  []standing[K]     // removed, and not loose before; of is nil if it was added again
	where map[member[K]]int // the index in left, once there are many
}

// sortedValues are the values that existed when that many had been created, in order.
type sortedValues[K comparable] struct {
	created uint64
	members []*Members[K]
}

// Place is the cell of an id: the number of the value and that of the cell. The zero Place is no
// cell.
type Place struct{ members, cell uint32 } // members are counted from 1

// Pack returns the place as one word, 0 for no cell.
func (p Place) Pack() uint64 { return uint64(p.members)<<32 | uint64(p.cell) }

// Unpack is the inverse of [Place.Pack].
func Unpack(word uint64) Place { return Place{members: uint32(word >> 32), cell: uint32(word)} }

// IsZero reports whether p is no cell.
func (p Place) IsZero() bool { return p.members == 0 }

// Members returns the number of the value.
func (p Place) Members() uint32 { return p.members - 1 }

type member[K comparable] struct {
	of *Members[K]
	id uint32
}

// life is the span of revisions in which a loose cell may count: from born, 0 if every revision
// may see it, up to died, 0 if it still has the value. An id that lost the value and got it again
// has one life, and added is when it got the value last.
type life struct {
	born, added, died uint64
	cell              uint32
	retired           bool // it is on a retire list
}

// standing is an id in a cell. mark is looseMark or 0.
type standing[K comparable] struct {
	member[K]
	cell uint32
	mark uint32
}

// coming is a loose cell that becomes an ordinary one when no revision before added is pinned.
type coming[K comparable] struct {
	member[K]
	added uint64
}

// NewPostings returns postings without values, whose revisions h publishes. own copies a value
// that is kept; nil keeps it as it is. compare orders the values for [Postings.Values]; it may be
// nil. moved is called when an id gets another place than [Postings.Add] returned for it.
func NewPostings[K comparable, P any](h *History[P], own func(K) K, compare func(a, b K) int, moved func(id uint32, to Place)) *Postings[K] {
	p := &Postings[K]{history: h, seed: maphash.MakeSeed(), compare: compare, own: own, moved: moved, loose: map[member[K]]life{}}
	p.table.Store(newTable(0))
	p.all.Store(new([]atomic.Pointer[Members[K]]))
	return p
}

// Value returns the value of a number.
func (p *Postings[K]) Value(number uint32) K { return p.values[number] }

// Find returns the members of a value, nil if it has none in any revision.
func (p *Postings[K]) Find(k K) *Members[K] {
	t, hash := p.table.Load(), maphash.Comparable(p.seed, k)
	tag := tagOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			number := g.ids[slotOf(f)].Load()
			// After the number: all has every number that the table has.
			if m := (*p.all.Load())[number].Load(); m != nil && m.value == k {
				return m
			}
		}
		if g.empty() {
			return nil
		}
	}
}

// Values calls yield for every value that some revision may see, until yield returns false: in
// order if they have one, and then from *from on if from is not nil.
func (p *Postings[K]) Values(from *K, yield func(K, *Members[K]) bool) {
	if p.compare == nil {
		all := *p.all.Load()
		for i := range all {
			if m := all[i].Load(); m != nil && !yield(m.value, m) {
				return
			}
		}
		return
	}
	members := p.inOrder()
	if from != nil {
		at, _ := slices.BinarySearchFunc(members, *from, func(m *Members[K], k K) int { return p.compare(m.value, k) })
		members = members[at:]
	}
	for _, m := range members {
		if !yield(m.value, m) {
			return
		}
	}
}

// inOrder returns the values in order, and perhaps some that no revision sees any more. The
// result is kept until a value is created. The next call then takes O(v log v) for v values.
func (p *Postings[K]) inOrder() []*Members[K] {
	created := p.created.Load() // before all: a value that comes meanwhile makes the result stale
	if s := p.sorted.Load(); s != nil && s.created == created {
		return s.members
	}
	s := &sortedValues[K]{created: created}
	all := *p.all.Load()
	for i := range all {
		if m := all[i].Load(); m != nil {
			s.members = append(s.members, m)
		}
	}
	slices.SortFunc(s.members, func(a, b *Members[K]) int { return p.compare(a.value, b.value) })
	p.sorted.Store(s)
	return s.members
}

// Add gives id the value k, which it does not have, in the revision in preparation.
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
		// It had the value before, and a pinned revision sees that: it keeps the cell.
		l.added, l.died = p.history.Next(), 0
		p.loose[at] = l
		p.coming = append(p.coming, coming[K]{at, l.added})
		return Place{m.id + 1, l.cell}
	}
	cell := m.ids.add(id + 1 | looseMark)
	p.fresh = append(p.fresh, standing[K]{at, cell, looseMark})
	return Place{m.id + 1, cell}
}

func (p *Postings[K]) create(k K) *Members[K] {
	if p.own != nil {
		k = p.own(k)
	}
	m := &Members[K]{in: p, value: k}
	var reused bool
	m.id, reused = p.numbers.take()
	all := *p.all.Load()
	if !reused {
		if len(all) == cap(all) {
			grown := make([]atomic.Pointer[Members[K]], len(all), len(all)+len(all)/4+4)
			for i := range all {
				grown[i].Store(all[i].Load())
			}
			all = grown
		}
		all = all[:len(all)+1] // readers of the shorter slice do not see it
		p.all.Store(&all)
		p.values = append(p.values, k)
	}
	all[m.id].Store(m)
	p.values[m.id] = k
	p.reserve(1)
	p.table.Load().insert(maphash.Comparable(p.seed, k), m.id)
	p.created.Add(1)
	return m
}

// drop removes a value that no revision sees.
func (p *Postings[K]) drop(m *Members[K]) {
	t := p.table.Load()
	t.remove(maphash.Comparable(p.seed, m.value), m.id)
	(*p.all.Load())[m.id].Store(nil)
	var none K
	p.values[m.id] = none
	p.numbers.give(m.id)
	if t.sparse() {
		p.table.Store(t.rebuilt(0, p.hashOf))
	}
}

func (p *Postings[K]) reserve(n int) {
	if t := p.table.Load(); t.full(n) {
		p.table.Store(t.rebuilt(n, p.hashOf))
	}
}

func (p *Postings[K]) hashOf(number uint32) uint64 {
	return maphash.Comparable(p.seed, p.values[number])
}

// Remove takes the value at a place from id in the revision in preparation. created means that
// the id was created in this revision.
func (p *Postings[K]) Remove(from Place, id uint32, created bool) {
	m := (*p.all.Load())[from.Members()].Load()
	m.count.Add(-1)
	at := member[K]{m, id}
	l, ok := p.loose[at]
	if !ok && created {
		m.clear(from.cell) // no revision ever saw it
		return
	}
	was := m.ids.at(from.cell).Swap(id + 1 | looseMark)
	if !ok {
		// Settle knows whether a revision sees it after this one is published. Mostly none does.
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

// fewLeft is how many are searched faster one by one than through a map.
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

// unleave gives an id back the cell that it left in the revision in preparation. No published
// revision sees a difference.
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
	at.of.ids.at(s.cell).Store(at.id + 1 | s.mark)
	return s.cell, true
}

// Settle takes the marks off the cells that all pinned revisions see alike. The writer calls it
// after each publication and sweep.
func (p *Postings[K]) Settle() {
	if len(p.fresh) == 0 && len(p.left) == 0 && len(p.coming) == 0 {
		return
	}
	oldest, now := p.history.Oldest(), p.history.Next()-1
	for _, s := range p.left {
		switch {
		case s.of == nil: // it was added again
		case oldest == now:
			s.of.clear(s.cell)
		default:
			p.loose[s.member] = life{died: now, cell: s.cell, retired: true}
			p.history.retire(s.of, s.id, 0)
		}
	}
	p.left, p.where = emptied(p.left), nil
	for _, f := range p.fresh {
		own := f.of.ids.own
		if int(f.cell) >= len(own) || own[f.cell].Load() != f.id+1|looseMark {
			continue // it was removed again
		}
		if _, ok := p.loose[f.member]; ok {
			continue // likewise, or added once more
		}
		if oldest == now {
			own[f.cell].Store(f.id + 1)
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
			c.of.ids.at(l.cell).Store(c.id + 1)
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
