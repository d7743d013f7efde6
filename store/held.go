package store

import (
	"unsafe"

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
