package store

import (
	"unsafe"
	"weak"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// This is the only file of the package that uses unsafe. What the map holds is a pointer without
// a type. A store whose objects are pointers, and that holds them decoded, stores the objects
// themselves (Store.direct). Any other store holds pointers to cells.

// pointerOf returns an object of pointer type as a value of the map.
func pointerOf[T any](obj T) mvcc.Value { return *(*mvcc.Value)(unsafe.Pointer(&obj)) }

// fromPointer is the inverse of pointerOf.
func fromPointer[T any](p mvcc.Value) T { return *(*T)(unsafe.Pointer(&p)) }

// heldCell returns a cell as a value of the map.
func heldCell[T any](c *cell[T]) mvcc.Value { return mvcc.Value(c) }

// cellAt is the inverse of heldCell.
func cellAt[T any](p mvcc.Value) *cell[T] { return (*cell[T])(p) }

// heldMark returns a mark as a value of the map of marks.
func heldMark(m *object.Mark) mvcc.Value { return mvcc.Value(m) }

// markAt is the inverse of heldMark.
func markAt(p mvcc.Value) *object.Mark { return (*object.Mark)(p) }

// heldUnreadable returns what is known about an unreadable object as a value of their map.
func heldUnreadable(u *Unreadable) mvcc.Value { return mvcc.Value(u) }

// unreadableAt is the inverse of heldUnreadable.
func unreadableAt(p mvcc.Value) *Unreadable { return (*Unreadable)(p) }

// load returns the object that is held at p.
func (s *Store[T]) load(p mvcc.Value) T {
	if s.direct {
		return fromPointer[T](p)
	}
	return cellAt[T](p).Get()
}

// value returns what is held at p, decoded or encoded.
func (s *Store[T]) value(p mvcc.Value) object.Value[T] {
	if s.direct {
		return object.Decoded(fromPointer[T](p))
	}
	return object.Value[T]{Encoded: cellAt[T](p)}
}

// pointed is what an object points to, without its type.
type pointed = *byte

// weakRef is a weak pointer to an object. kind is what an interface has besides the pointer: nil if T is a
// pointer.
type weakRef struct {
	kind   unsafe.Pointer
	target weak.Pointer[byte]
}

// words is how an interface is laid out.
type words struct {
	kind unsafe.Pointer
	data pointed
}

// toWeak takes a pointer, or an interface that holds one, apart.
func toWeak[T any](obj T) (kind unsafe.Pointer, p pointed) {
	if unsafe.Sizeof(obj) == unsafe.Sizeof(p) {
		return nil, *(*pointed)(unsafe.Pointer(&obj))
	}
	w := (*words)(unsafe.Pointer(&obj))
	return w.kind, w.data
}

// fromWeak is the inverse of toWeak.
func fromWeak[T any](kind unsafe.Pointer, p pointed) (obj T) {
	if unsafe.Sizeof(obj) == unsafe.Sizeof(p) {
		return *(*T)(unsafe.Pointer(&p))
	}
	return *(*T)(unsafe.Pointer(&words{kind, p}))
}

// isNone reports whether an object is the zero value of a pointer or an interface.
func isNone[T any](obj T) bool {
	_, p := toWeak(obj)
	return p == nil
}
