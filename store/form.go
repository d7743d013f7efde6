package store

import (
	"fmt"
	"sync/atomic"
	"unsafe"
	"weak"
)

// Form decides how objects rest in the store. A store without one keeps them as they
// are.
type Form[T any] interface {
	// Hold takes an object in. An error refuses it: the object is not stored. It runs
	// in the writer and is given objects that the store will not keep itself.
	Hold(obj T) (Held[T], error)
}

// Held is an object at rest.
type Held[T any] interface {
	// Object returns the object, for any number of readers at once.
	Object() T
	// Size returns about how many bytes the object takes at rest.
	Size() int
}

// Encoded is the compact form: objects rest as bytes and are decoded when read. The
// decoded object is remembered for as long as somebody else holds on to it, so that
// several readers share one. Encode and decode must be inverse; decode is only ever
// given what encode returned, and a store panics when it fails then.
func Encoded[X any](encode func(*X) ([]byte, error), decode func([]byte) (*X, error)) Form[*X] {
	return &encoded[X]{encode: encode, decode: decode}
}

type encoded[X any] struct {
	encode func(*X) ([]byte, error)
	decode func([]byte) (*X, error)
}

// Hold implements [Form].
func (f *encoded[X]) Hold(obj *X) (Held[*X], error) {
	data, err := f.encode(obj)
	if err != nil {
		return nil, fmt.Errorf("store: encoding a %T: %w", obj, err)
	}
	h := &encodedObject[X]{form: f, data: data}
	h.remember(obj)
	return h, nil
}

type encodedObject[X any] struct {
	form *encoded[X]
	data []byte
	last atomic.Pointer[weak.Pointer[X]]
}

func (h *encodedObject[X]) remember(obj *X) {
	w := weak.Make(obj)
	h.last.Store(&w)
}

// remembered returns the decoded object if somebody still holds it.
func (h *encodedObject[X]) remembered() *X {
	if w := h.last.Load(); w != nil {
		return w.Value()
	}
	return nil
}

// Object implements [Held].
func (h *encodedObject[X]) Object() *X {
	if obj := h.remembered(); obj != nil {
		return obj
	}
	obj, err := h.form.decode(h.data)
	if err != nil {
		panic(fmt.Sprintf("store: decoding a %T that was encoded here: %v", obj, err))
	}
	h.remember(obj)
	return obj
}

// Size implements [Held].
func (h *encodedObject[X]) Size() int { return len(h.data) }

// mutation implements mutable: what a reader did to the shared decoded object shows
// when it is encoded again.
func (h *encodedObject[X]) mutation() (path, was, is string) {
	obj := h.remembered()
	if obj == nil {
		return "", "", ""
	}
	fresh, err := h.form.decode(h.data)
	if err != nil {
		return "", "", ""
	}
	return firstDifference(fresh, obj)
}

// value is an object in a version: as it is, or in a cell.
type value[T any] struct {
	object T
	cell   *cell[T]
}

// cell holds an object in a form, with the identity that would else need decoding.
type cell[T any] struct {
	identity
	held Held[T]
}

// pointer returns the pointer that an object of pointer type is.
func pointer[T any](v value[T]) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&v.object)) }

// fromPointer is the inverse of pointer.
func fromPointer[T any](p unsafe.Pointer) T { return *(*T)(unsafe.Pointer(&p)) }

func (v *value[T]) load() T {
	if v.cell == nil {
		return v.object
	}
	return v.cell.held.Object()
}

// hold puts an object into the store's form. A panic of the form is an error.
func (s *Store[T]) hold(obj T, id identity) (v value[T], err error) {
	if s.form == nil {
		return value[T]{object: obj}, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: form panicked on a value of type %T: %v", obj, r)
		}
	}()
	held, err := s.form.Hold(obj)
	if err != nil {
		return v, err
	}
	return value[T]{cell: &cell[T]{identity: id, held: held}}, nil
}
