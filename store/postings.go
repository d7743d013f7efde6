package store

import (
	"slices"
	"strings"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// bound is an index in one store, for any type of values. Writer only, except extract
// and objectKeys.
type bound[T any] interface {
	name() string
	// reads returns the fields that the index function reads; nil if it may read any.
	reads() []object.FieldPath
	// reading is how the objects for the index function are decoded; nil for that of the store.
	reading() *Reading[T]
	// prepare computes the values of obj, which commit gives to the object at r. It may panic as the
	// index function does.
	prepare(obj T, r ref) error
	// extract computes the values of obj for prepareValues, to be called later. It does
	// not use the writer's fields, and does not keep obj alive if values of the type can be
	// copied. It may panic as the index function does.
	extract(obj T) (values any, err error)
	// prepareValues is prepare for values that extract computed.
	prepareValues(values any, r ref)
	// prepareNone prepares an object without values.
	prepareNone()
	// fail counts an index function that failed and leaves no values prepared.
	fail(err error)
	// commit makes the prepared values those of the object with that id. created means
	// that it was created in this revision.
	commit(id uint32, created bool)
	// settle cleans up behind a publication.
	settle()
	stats() IndexStats
	// objectKeys is [Index.ObjectKeys] for a value in text form. Not only for the writer.
	objectKeys(n Snapshot[T], value string) []string
}

// postings is an [Index] in one store: for every value the ids that have it.
//
// The writer knows the place of each id, so that an update with unchanged values compares them
// and writes nothing.
type postings[T any, K comparable] struct {
	*mvcc.Postings[K]
	def   *Index[T, K]
	since uint64 // the first revision that the index knows

	// Writer only. An index with one value for each object has the places in a column of the
	// store's rows; another has them in many.
	rows   *rows
	column int
	many   [][]mvcc.Place
	next   []K
	same   bool      // the value is unchanged
	add    func(K)   // appends to next
	own    func(K) K // copies a value that is kept; nil if there is no need or no way to

	failures uint64
	last     error // the newest failure
}

// bind implements [AnyIndex].
func (x *Index[T, K]) bind(s *Store[T]) bound[T] {
	p := &postings[T, K]{def: x, since: s.history.Next(), rows: &s.rows, own: ownValue[K]()}
	if x.one != nil {
		p.column = s.rows.addColumn()
	}
	p.Postings = mvcc.NewPostings(s.history, p.own, x.order, p.moved)
	p.add = func(k K) {
		mustEqual(k, k)
		if !slices.Contains(p.next, k) {
			p.next = append(p.next, k)
		}
	}
	return p
}

// mustEqual panics if a value cannot be found again: the type behind an interface is not
// comparable, or the value is not equal to itself. The panic counts as one of the index function.
func mustEqual[K comparable](k, same K) {
	if k != same {
		panic("a value that is not equal to itself")
	}
}

// ownValue returns a function that copies values of type K, so that they do not keep the object
// alive; nil for types it does not know.
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

func (p *postings[T, K]) reads() []object.FieldPath { return p.def.fields }

func (p *postings[T, K]) reading() *Reading[T] { return p.def.by }

func (p *postings[T, K]) prepare(obj T, r ref) error {
	p.prepareNone()
	if p.def.one != nil {
		k := p.def.one(obj)
		mustEqual(k, k)
		p.prepareOne(k, r)
		return nil
	}
	return p.def.many(obj, p.add)
}

func (p *postings[T, K]) prepareOne(k K, r ref) {
	// By far the most common case: nothing has changed.
	if r.Known() {
		if at := p.rows.at(r.ID, p.column); !at.IsZero() && p.Value(at.Members()) == k {
			p.same = true
			return
		}
	}
	p.next = append(p.next, k)
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

func (p *postings[T, K]) prepareValues(values any, r ref) {
	p.prepareNone()
	if p.def.one != nil {
		p.prepareOne(*values.(*K), r)
		return
	}
	for _, k := range values.([]K) {
		p.add(k)
	}
}

func (p *postings[T, K]) prepareNone() { p.next, p.same = p.next[:0], false }

// places returns the places of an id in an index of several values.
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

func (p *postings[T, K]) commit(id uint32, created bool) {
	switch {
	case p.same:
	case p.def.one != nil:
		p.commitOne(id, created)
	default:
		p.commitMany(id, created)
	}
}

func (p *postings[T, K]) commitOne(id uint32, created bool) {
	if at := p.rows.at(id, p.column); !at.IsZero() {
		p.Remove(at, id, created)
		p.rows.set(id, p.column, mvcc.Place{})
	}
	if len(p.next) == 1 {
		p.rows.set(id, p.column, p.Add(p.next[0], id))
	}
}

func (p *postings[T, K]) commitMany(id uint32, created bool) {
	for int(id) >= len(p.many) {
		p.many = append(p.many, nil)
	}
	kept := p.many[id][:0]
	for _, at := range p.many[id] {
		if i := slices.Index(p.next, p.Value(at.Members())); i >= 0 {
			p.next = slices.Delete(p.next, i, i+1)
			kept = append(kept, at)
		} else {
			p.Remove(at, id, created)
		}
	}
	for _, k := range p.next {
		kept = append(kept, p.Add(k, id))
	}
	if len(kept) == 0 {
		kept = nil
	}
	p.many[id] = kept
}

func (p *postings[T, K]) settle() { p.Settle() }

func (p *postings[T, K]) stats() IndexStats {
	st := IndexStats{
		Name:        p.def.label,
		Failures:    p.failures,
		LastFailure: p.last,
	}
	p.Values(nil, func(_ K, m *mvcc.Members[K]) bool {
		if m.Count() > 0 {
			st.Values++
		}
		return true
	})
	return st
}

// AddIndex adds an index over existing and future objects. Adding an index twice does nothing.
// Objects on which the index function fails are stored without values and counted, as in
// [Store.Apply].
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
	s.objects.Lives(func(id uint32, p mvcc.Value) bool {
		if _, err := s.prepare([]bound[T]{b}, 0, s.read(b.reading(), p), p, ref{}); err != nil {
			s.failed(b, &IndexError{Key: cloneKey(s.objects.Key(id)), Index: b.name(), Cause: err})
		}
		b.commit(id, false)
		return true
	})
	grown := append(slices.Clip(indexes), b)
	s.indexes.Store(&grown)
	s.tx.commit()
}
