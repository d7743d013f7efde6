package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/tarnproject/tarn/internal/packing"
	"github.com/tarnproject/tarn/object"
)

// Form decides how objects rest in the store. A store without one keeps them as they
// are.
type Form[T any] interface {
	// Hold takes an object in. An error refuses it: the object is not stored. It is given
	// objects that the store will not keep itself, by the writer and by whoever calls
	// [Store.Rest], at the same time.
	Hold(obj T) (Held[T], error)
}

// Held is an object at rest.
type Held[T any] interface {
	// Object returns the object, for any number of readers at once.
	Object() T
}

// Encoded is a compact form: objects rest as bytes and are decoded when read. The
// decoded object is remembered for as long as somebody else holds on to it, so that
// several readers share one. Encode and decode must be inverse; decode is only ever
// given what encode returned, and a store panics when it fails then.
func Encoded[X any](encode func(*X) ([]byte, error), decode func([]byte) (*X, error)) Form[*X] {
	return &encoded[X]{encode: encode, decode: decode}
}

// Packed is the most compact form: as [Encoded], but of the bytes only what other objects
// do not have is held, the rest being references to these. Objects that are alike, as those
// of one resource mostly are, take a fraction of their encoding: pods an eighth. To hold
// an object takes some 8 µs more than Encoded does, and to read one less than 1 µs.
//
// Neither function may keep the bytes that decode is given.
func Packed[X any](encode func(*X) ([]byte, error), decode func([]byte) (*X, error)) Form[*X] {
	return &encoded[X]{encode: encode, decode: decode, packer: new(packing.Packer)}
}

type encoded[X any] struct {
	encode func(*X) ([]byte, error)
	decode func([]byte) (*X, error)
	packer *packing.Packer // nil: bytes are held as they are
	// buffers are for unpacking: *[]byte.
	buffers sync.Pool
}

// Hold implements [Form].
func (f *encoded[X]) Hold(obj *X) (Held[*X], error) {
	h, err := f.hold(obj)
	if err != nil {
		return nil, err
	}
	h.remember(obj)
	return h, nil
}

// holdAlone implements loner.
func (f *encoded[X]) holdAlone(obj *X) (Held[*X], error) {
	h, err := f.hold(obj)
	if err != nil {
		return nil, err // not a nil of another type
	}
	return h, nil
}

func (f *encoded[X]) hold(obj *X) (*encodedObject[X], error) {
	data, err := f.encode(obj)
	if err != nil {
		return nil, fmt.Errorf("store: encoding a %T: %w", obj, err)
	}
	h := &encodedObject[X]{form: f, data: packing.Plain(data)}
	if f.packer != nil {
		h.data = f.packer.Pack(data)
	}
	return h, nil
}

type encodedObject[X any] struct {
	form *encoded[X]
	data packing.Packed
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
	obj, err := h.decode()
	if err != nil {
		panic(fmt.Sprintf("store: decoding a %T that was encoded here: %v", obj, err))
	}
	h.remember(obj)
	return obj
}

func (h *encodedObject[X]) decode() (*X, error) {
	f := h.form
	if f.packer == nil {
		return f.decode(h.data.Bytes(nil))
	}
	buf, ok := f.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	obj, err := f.decode(h.data.Bytes(buf))
	f.buffers.Put(buf)
	return obj, err
}

// mutation implements mutable: what a reader did to the shared decoded object shows
// when it is encoded again.
func (h *encodedObject[X]) mutation() (path, was, is string) {
	obj := h.remembered()
	if obj == nil {
		return "", "", ""
	}
	// What decoding makes of the object is compared, not the object: it may have had
	// another representation of the same from the start.
	data, err := h.form.encode(obj)
	if err != nil || bytes.Equal(data, h.data.Bytes(nil)) {
		return "", "", ""
	}
	before, errBefore := h.decode()
	after, errAfter := h.form.decode(data)
	if errBefore != nil || errAfter != nil {
		return "", "", ""
	}
	return firstDifference(before, after)
}

// loner is a form that can hold an object of which nobody else will have a copy, so that
// it need not be remembered.
type loner[T any] interface {
	holdAlone(obj T) (Held[T], error)
}

// detects marks the form as one that the mutation detector knows.
func (f *encoded[X]) detects() {}

// What the map holds is a pointer: the object itself, where objects are pointers and rest as
// they are; else a cell.

// cell holds an object with the identity that would else need decoding.
type cell[T any] struct {
	brief  brief
	texts  *identity // where the identity has no brief
	object T         // as it is, if held is nil
	held   Held[T]   // in a form
}

func (c *cell[T]) identity() identity {
	if c.texts != nil {
		return *c.texts
	}
	return c.brief.texts()
}

func (c *cell[T]) load() T {
	if c.held == nil {
		return c.object
	}
	return c.held.Object()
}

// pointerOf returns the pointer that an object of pointer type is.
func pointerOf[T any](obj T) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&obj)) }

// fromPointer is the inverse of pointerOf.
func fromPointer[T any](p unsafe.Pointer) T { return *(*T)(unsafe.Pointer(&p)) }

// load returns the object that is held at p.
func (s *Store[T]) load(p unsafe.Pointer) T {
	if s.direct {
		return fromPointer[T](p)
	}
	return (*cell[T])(p).load()
}

// value is an object that a [Change] holds on to.
type value[T any] struct {
	object T
	cell   *cell[T] // nil where the object rests as it is
}

// value returns what is held at p, which may be nil.
func (s *Store[T]) value(p unsafe.Pointer) value[T] {
	if s.direct {
		return value[T]{object: fromPointer[T](p)}
	}
	return value[T]{cell: (*cell[T])(p)}
}

func (v value[T]) load() T {
	if v.cell == nil {
		return v.object
	}
	return v.cell.load()
}

var errNil = errors.New("store: a nil object")

// hold makes of an object what the store holds. A panic of the form is an error.
func (s *Store[T]) hold(obj T, id *identity) (p unsafe.Pointer, err error) {
	if s.direct {
		if p = pointerOf(obj); p == nil {
			return nil, errNil
		}
		return p, nil
	}
	c := newCell[T](id)
	if s.form == nil {
		c.object = obj
		return unsafe.Pointer(c), nil
	}
	if c.held, err = formed(s.form.Hold, obj); err != nil {
		return nil, err
	}
	return unsafe.Pointer(c), nil
}

// formed has a form's function hold an object. A panic is an error.
func formed[T any](hold func(T) (Held[T], error), obj T) (h Held[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: form panicked on a value of type %T: %v", obj, r)
		}
	}()
	return hold(obj)
}

// newCell returns a cell for what has that identity.
func newCell[T any](id *identity) *cell[T] {
	c := &cell[T]{brief: id.brief}
	if id.brief == (brief{}) {
		// Copies, so as not to keep alive the buffer that they were cut from.
		c.texts = &identity{
			uid:     object.UID(strings.Clone(string(id.uid))),
			version: object.Version(strings.Clone(string(id.version))),
		}
	}
	return c
}
