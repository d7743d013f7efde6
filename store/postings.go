package store

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// bound is an index as one store keeps it, whatever the type of its values. All of it is
// the writer's.
type bound[T any] interface {
	name() string
	// foresee computes the values of some objects that are likely to be prepared, at refs, and
	// looks at what they are to be compared with: one object after the other is waiting for
	// memory, all together it is waiting once.
	foresee(changes []object.Change[T], refs []ref)
	// prepare computes the values of obj, which commit will give to the object at r. seen
	// is the place among those that were foreseen, or unseen. If strict, it returns an error when the index is unique and another object has one of
	// them. It may panic as the index function does.
	prepare(obj T, seen int, r ref, how strictness) error
	// extract computes the values of obj for prepareValues, to be called later. It touches
	// nothing of the writer's, and keeps nothing of obj alive if the type of the values is
	// one that can be copied. It may panic as the index function does.
	extract(obj T) (values any, err error)
	// prepareValues is prepare for values that extract computed.
	prepareValues(values any, r ref, how strictness) error
	// prepareNone stands for an object without values.
	prepareNone()
	// fail counts an index function that failed and leaves no values prepared.
	fail(err error)
	// commit makes the prepared values those of the object with that id. newborn says
	// that it came to be in this revision.
	commit(id uint32, newborn bool)
	// settle cleans up behind a publication.
	settle()
	stats() IndexStats
}

// postings is an [Index] in one store: for every value the ids that have it.
//
// Where each id stands at present is kept beside, for the writer alone, so that an update
// whose values did not change compares them and touches nothing.
type postings[T any, K comparable] struct {
	*mvcc.Postings[K]
	def   *Index[T, K]
	since uint64 // the first revision that the index knows

	// Of the writer. Where the index has one value for each object, its place is in a
	// column of the store's rows; otherwise all places are in many.
	rows   *rows
	column int
	many   [][]mvcc.Place
	next   []K
	same   bool      // nothing is to be done: the value is what it was
	add    func(K)   // appends to next
	own    func(K) K // copies a value that is to be kept; nil if it need not, or cannot

	// early are the values of the objects that were foreseen: those whose bit is set.
	early    [mvcc.Ahead]K
	foreseen uint
	warm     bool // takes what was looked at for nothing but to have it in the cache

	failures  uint64
	conflicts uint64
	last      error // the newest failure
}

// bind implements [AnyIndex].
func (x *Index[T, K]) bind(s *Store[T]) bound[T] {
	p := &postings[T, K]{def: x, since: s.history.Next(), rows: &s.rows, own: ownValue[K]()}
	if x.one != nil {
		p.column = s.rows.addColumn()
	}
	p.Postings = mvcc.NewPostings(s.history, p.own, mvcc.Sorting[K]{Compare: x.order}, p.moved)
	p.add = func(k K) {
		mustEqual(k, k)
		if !slices.Contains(p.next, k) {
			p.next = append(p.next, k)
		}
	}
	return p
}

// mustEqual panics, in time for that to be a failure of the index function, if a value cannot
// be found again: because its type, behind an interface, cannot be compared, or because it
// is not equal to itself.
func mustEqual[K comparable](k, same K) {
	if k != same {
		panic("a value that is not equal to itself")
	}
}

// ownValue returns the function that copies values which would else keep alive the object
// they are a part of; nil for types that it does not know.
func ownValue[K comparable]() func(K) K {
	switch f := any(new(func(K) K)).(type) {
	case *func(string) string:
		*f = strings.Clone
		return any(*f).(func(K) K)
	case *func(object.UID) object.UID:
		*f = func(u object.UID) object.UID { return object.UID(strings.Clone(string(u))) }
		return any(*f).(func(K) K)
	case *func(Label) Label:
		*f = func(l Label) Label { return Label{strings.Clone(l.Key), strings.Clone(l.Value)} }
		return any(*f).(func(K) K)
	}
	return nil
}

// boundTo implements [AnyIndex].
func (x *Index[T, K]) boundTo(b bound[T]) bool {
	p, ok := b.(*postings[T, K])
	return ok && p.def == x
}

func (p *postings[T, K]) name() string { return p.def.label }

func (p *postings[T, K]) prepare(obj T, seen int, r ref, how strictness) error {
	p.prepareNone()
	if p.def.one != nil {
		var k K
		if p.foreseen&(1<<seen) != 0 {
			k = p.early[seen]
		} else {
			k = p.def.one(obj)
		}
		mustEqual(k, k)
		return p.prepareOne(k, r, how)
	}
	if err := p.def.many(obj, p.add); err != nil {
		return err
	}
	return p.check(r, how)
}

func (p *postings[T, K]) foresee(changes []object.Change[T], refs []ref) {
	p.foreseen = 0
	if p.def.one == nil {
		return
	}
	// If the index function panics, prepare will find out, and the rest is not foreseen.
	defer func() { _ = recover() }()
	for i := range changes {
		if c := &changes[i]; c.List == nil && c.Value.Encoded == nil && c.Kind != object.Deleted {
			p.early[i] = p.def.one(c.Value.Object)
			p.foreseen |= 1 << i
		}
	}
	for i, r := range refs {
		if r.Known() && p.foreseen&(1<<i) != 0 {
			if at := p.rows.at(r.ID, p.column); !at.Nowhere() {
				p.warm = p.Value(at.Members()) == p.early[i]
			}
		}
	}
}

func (p *postings[T, K]) prepareOne(k K, r ref, how strictness) error {
	// By far the most common case: nothing has changed.
	if r.Known() {
		if at := p.rows.at(r.ID, p.column); !at.Nowhere() && p.Value(at.Members()) == k {
			p.same = true
			return nil
		}
	}
	p.next = append(p.next, k)
	return p.check(r, how)
}

func (p *postings[T, K]) extract(obj T) (any, error) {
	own := func(k K) K {
		mustEqual(k, k)
		if p.own != nil {
			k = p.own(k)
		}
		return k
	}
	if p.def.one != nil {
		k := own(p.def.one(obj))
		return &k, nil
	}
	var values []K
	err := p.def.many(obj, func(k K) { values = append(values, own(k)) })
	return values, err
}

func (p *postings[T, K]) prepareValues(values any, r ref, how strictness) error {
	p.prepareNone()
	if p.def.one != nil {
		return p.prepareOne(*values.(*K), r, how)
	}
	for _, k := range values.([]K) {
		p.add(k)
	}
	return p.check(r, how)
}

// check returns an error if what is prepared is refused.
func (p *postings[T, K]) check(r ref, how strictness) error {
	if p.def.unique && how == strict {
		return p.conflict(r)
	}
	return nil
}

func (p *postings[T, K]) prepareNone() { p.next, p.same = p.next[:0], false }

// conflict returns an error if another object than that at r has a prepared value.
func (p *postings[T, K]) conflict(r ref) error {
	for _, k := range p.next {
		if n := p.Find(k).Count(); n > 1 || n == 1 && !p.holds(r, k) {
			return ErrNotUnique
		}
	}
	return nil
}

// holds reports whether the object of r has the value k at present.
func (p *postings[T, K]) holds(r ref, k K) bool {
	if !r.Known() {
		return false
	}
	if p.def.one != nil {
		at := p.rows.at(r.ID, p.column)
		return !at.Nowhere() && p.Value(at.Members()) == k
	}
	return slices.ContainsFunc(p.places(r.ID), func(at mvcc.Place) bool { return p.Value(at.Members()) == k })
}

// places returns where an id stands, in an index of several values.
func (p *postings[T, K]) places(id uint32) []mvcc.Place {
	if int(id) < len(p.many) {
		return p.many[id]
	}
	return nil
}

func (p *postings[T, K]) fail(err error) {
	p.failures++
	p.last = err
	p.prepareNone()
}

func (p *postings[T, K]) moved(id uint32, to mvcc.Place) {
	if p.def.one != nil {
		if p.rows.at(id, p.column).Members() == to.Members() {
			p.rows.set(id, p.column, to)
		}
		return
	}
	places := p.places(id)
	for i := range places {
		if places[i].Members() == to.Members() {
			places[i] = to
		}
	}
}

func (p *postings[T, K]) commit(id uint32, newborn bool) {
	switch {
	case p.same:
	case p.def.one != nil:
		p.commitOne(id, newborn)
	default:
		p.commitMany(id, newborn)
	}
}

func (p *postings[T, K]) commitOne(id uint32, newborn bool) {
	if at := p.rows.at(id, p.column); !at.Nowhere() {
		p.Remove(at, id, newborn)
		p.rows.set(id, p.column, mvcc.Place{})
	}
	if len(p.next) == 1 {
		p.rows.set(id, p.column, p.insert(p.next[0], id))
	}
}

func (p *postings[T, K]) commitMany(id uint32, newborn bool) {
	for int(id) >= len(p.many) {
		p.many = append(p.many, nil)
	}
	kept := p.many[id][:0]
	for _, at := range p.many[id] {
		if i := slices.Index(p.next, p.Value(at.Members())); i >= 0 {
			p.next = slices.Delete(p.next, i, i+1)
			kept = append(kept, at)
		} else {
			p.Remove(at, id, newborn)
		}
	}
	for _, k := range p.next {
		kept = append(kept, p.insert(k, id))
	}
	if len(kept) == 0 {
		kept = nil
	}
	p.many[id] = kept
}

func (p *postings[T, K]) insert(k K, id uint32) mvcc.Place {
	if p.def.unique && p.Find(k).Count() > 0 {
		p.conflicts++
	}
	return p.Add(k, id)
}

func (p *postings[T, K]) settle() {
	if p.foreseen != 0 {
		p.foreseen = 0
		clear(p.early[:])
	}
	p.Settle()
}

func (p *postings[T, K]) stats() IndexStats {
	st := IndexStats{
		Name:        p.def.label,
		Failures:    p.failures,
		LastFailure: p.last,
		Conflicts:   p.conflicts,
	}
	p.Values(nil, func(_ K, m *mvcc.Members[K]) bool {
		if m.Count() > 0 {
			st.Values++
		}
		return true
	})
	return st
}

// AddIndex gives the store one more index, which sees what is already there. Adding an
// index twice does nothing. Objects on which the index function fails are stored
// without values and counted, as in [Store.Apply].
func (s *Store[T]) AddIndex(x AnyIndex[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	indexes := *s.indexes.Load()
	if slices.ContainsFunc(indexes, x.boundTo) {
		return
	}
	// The index is built as part of the revision in preparation; it does not know
	// earlier ones.
	b := x.bind(s)
	s.tx.begin()
	s.objects.Lives(func(id uint32, p unsafe.Pointer) bool {
		if _, err := prepare([]bound[T]{b}, 0, s.load(p), unseen, ref{}, lenient); err != nil {
			b.fail(&IndexError{Key: cloneKey(s.objects.Key(id)), Index: b.name(), Cause: err})
		}
		b.commit(id, false)
		return true
	})
	grown := append(slices.Clip(indexes), b)
	s.indexes.Store(&grown)
	s.tx.commit()
}
