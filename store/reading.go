package store

import (
	"sync/atomic"
	"weak"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Reading is a way to read objects that are held in a compact [Form]: what decodes them, and who owns the result. Several readers can so read one store as
// different Go types. T is then an interface that all of them implement.
//
// A Reading shares what it has decoded among its readers, who must not write to it. [Reading.Owned] and
// [Reading.Kept] are the same decoder with other rules. Objects that a store holds decoded are returned
// as they are.
type Reading[T any] struct {
	id     *int // of what it remembers, with objects; nil for that of the form
	decode func([]byte) T
	owned  bool
	kept   bool
}

// NewReading returns a way to read. decode is given the bytes that the form holds, must not keep them, and
// returns the zero T if it cannot decode them. A nil decode is the form's own.
func NewReading[T any](decode func([]byte) T) *Reading[T] {
	if decode == nil {
		return &Reading[T]{}
	}
	return &Reading[T]{id: new(int), decode: decode}
}

// Owned returns the reading that decodes for every read: the reader owns the result, if decode shares no
// parts between objects.
func (r *Reading[T]) Owned() *Reading[T] { return &Reading[T]{id: r.id, decode: r.decode, owned: true} }

// Kept returns the reading that keeps a decoded object for as long as the store holds its version: a
// second read of it costs nothing. Its readers share the objects with those of r.
func (r *Reading[T]) Kept() *Reading[T] { return &Reading[T]{id: r.id, decode: r.decode, kept: true} }

// Of returns the object of a value, such as those of an [object.Change].
func (r *Reading[T]) Of(v object.Value[T]) T {
	if v.Encoded == nil {
		return v.Object
	}
	return r.of(v.Encoded)
}

func (r *Reading[T]) of(e object.Encoded[T]) T {
	if c, ok := e.(*cell[T]); ok {
		if c.held == nil {
			return c.object
		}
		e = c.held
	}
	if h, ok := e.(*encodedObject[T]); ok {
		return h.read(r)
	}
	return e.Get()
}

// read returns the object as a reading wants it.
func (h *encodedObject[T]) read(r *Reading[T]) (obj T) {
	if !r.owned {
		if obj, ok := h.memory.get(r.id); ok {
			if r.kept {
				obj = h.memory.keep(r.id, obj, true)
			}
			return obj
		}
	}
	if r.decode == nil {
		var err error
		if obj, err = h.decode(); err != nil {
			return obj
		}
	} else {
		h.unpack(func(data []byte) { obj = r.decode(data) })
	}
	if r.owned || isNone(obj) {
		return obj
	}
	return h.memory.keep(r.id, obj, r.kept)
}

// With returns the same snapshot for another way to read it. Release one of them.
func (n Snapshot[T]) With(r *Reading[T]) Snapshot[T] {
	n.reading = r
	return n
}

// load returns the object that is held at p as the snapshot reads it.
func (n Snapshot[T]) load(p mvcc.Value) T { return n.store.read(n.reading, p) }

// read returns the object that is held at p. A nil reading is that of the form.
func (s *Store[T]) read(r *Reading[T], p mvcc.Value) T {
	if r == nil || s.direct {
		return s.load(p)
	}
	return r.of(cellAt[T](p))
}

// memory is the decoded forms of an object that readers share, of different readings.
type memory[T any] struct {
	first atomic.Pointer[remembered[T]]
}

// remembered is one of them: that of the form, unless also says otherwise. It is as small as it can be, because
// a mirror may have one for each object.
type remembered[T any] struct {
	last weakRef
	also *also[T] // nil if there is nothing else
}

type also[T any] struct {
	by   *int
	kept pointed // what may not be freed; nil for nothing
	next *remembered[T]
}

func (r *remembered[T]) of() also[T] {
	if r.also == nil {
		return also[T]{}
	}
	return *r.also
}

// get returns the decoded object of a reading if the garbage collector has not freed it.
func (m *memory[T]) get(by *int) (obj T, ok bool) {
	for r := m.first.Load(); r != nil; {
		also := r.of()
		if also.by == by {
			if p := r.last.target.Value(); p != nil {
				return fromWeak[T](r.last.kind, p), true
			}
			return obj, false
		}
		r = also.next
	}
	return obj, false
}

// keep makes obj the decoded object that the readers of a reading share, and returns it; or another
// that a reader has already.
func (m *memory[T]) keep(by *int, obj T, strongly bool) T {
	for {
		first := m.first.Load()
		is := also[T]{by: by}
		for r := first; r != nil; {
			was := r.of()
			if was.by != by {
				is.next = &remembered[T]{r.last, &also[T]{was.by, was.kept, is.next}}
			} else if p := r.last.target.Value(); p != nil {
				other := fromWeak[T](r.last.kind, p)
				if !strongly || was.kept != nil {
					return other
				}
				obj = other
			}
			r = was.next
		}
		kind, p := toWeak(obj)
		if strongly {
			is.kept = p
		}
		now := &remembered[T]{last: weakRef{kind, weak.Make(p)}}
		if more := is; is != (also[T]{}) { // allocated only then
			now.also = &more
		}
		if m.first.CompareAndSwap(first, now) {
			return obj
		}
	}
}
