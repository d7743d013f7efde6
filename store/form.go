package store

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/internal/packing"
	"github.com/tarnproject/tarn/object"
)

// Form is how a compact store holds objects: encoded, and decoded again when they are read. A store without
// one holds them decoded. Make one with [Packed].
type Form[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
	packer packing.Packer
	// buffers are for unpacking: *[]byte.
	buffers sync.Pool
}

// Packed returns the form of a compact store. Bytes that other objects have too are replaced with references
// to them: objects of one resource are mostly alike and take a fraction of their encoding, pods an eighth.
// The decoded object is remembered until the garbage collector frees it, so that several readers share one.
//
// decode also decodes the bytes that the source of the objects receives, as that of a stream.Source does. Objects
// that no transform changes are packed as they are received, neither decoded nor encoded, if every index
// says which fields it reads; see [Index.Reads]. Otherwise decode is only given what encode returned: the two
// must be inverse, and a store panics if decode fails then. Neither may keep the bytes that decode is given. For
// Options.OnMutation, decode must not share parts between objects (DisableSharing of stream.Options).
//
// An object for which encode fails is not stored. T is a pointer type, or an interface that pointers implement.
// Both functions are called by the store's writer, its readers and callers of [Store.Encoder] at the same time.
func Packed[T any](encode func(T) ([]byte, error), decode func([]byte) (T, error)) *Form[T] {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		panic(fmt.Sprintf("store: objects in a compact form are pointers; %v is not one", t))
	}
	return &Form[T]{encode: encode, decode: decode}
}

// hold encodes an object. If raw is not nil, it is the object's encoding and what to hold. A panic is an error.
func (f *Form[T]) hold(obj T, raw []byte) (h *encodedObject[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: form panicked on a value of type %T: %v", obj, r)
		}
	}()
	if raw == nil {
		if raw, err = f.encode(obj); err != nil {
			return nil, fmt.Errorf("store: encoding a %T: %w", obj, err)
		}
	}
	return &encodedObject[T]{form: f, data: f.packer.Pack(raw)}, nil
}

type encodedObject[T any] struct {
	form   *Form[T]
	data   packing.Packed
	memory memory[T]
}

// Get implements [object.Encoded].
func (h *encodedObject[T]) Get() T {
	if obj, ok := h.memory.get(nil); ok {
		return obj
	}
	obj, err := h.decode()
	if err != nil {
		panic(fmt.Sprintf("store: decoding a %T that was encoded here: %v", obj, err))
	}
	return h.memory.keep(nil, obj, false)
}

func (h *encodedObject[T]) decode() (obj T, err error) {
	h.unpack(func(data []byte) { obj, err = h.form.decode(data) })
	return obj, err
}

// unpack calls f with the bytes, which it must not keep.
func (h *encodedObject[T]) unpack(f func(data []byte)) {
	buf, ok := h.form.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	f(h.data.Bytes(buf))
	h.form.buffers.Put(buf)
}

// mutation implements mutable: what a reader did to the shared decoded object shows
// when it is encoded again.
func (h *encodedObject[T]) mutation(copy func(T) T) (path, was, is string) {
	obj, ok := h.memory.get(nil)
	if !ok {
		return "", "", ""
	}
	if copy != nil {
		obj = copy(obj) // encoding writes to some: a quantity keeps its text
	}
	// What decoding makes of the object is compared, not the object: it may have had
	// another representation of the same from the start.
	data, err := h.form.encode(obj)
	if err != nil || bytes.Equal(data, h.data.Bytes(nil)) {
		return "", "", ""
	}
	after, err := h.form.decode(data)
	if err != nil {
		return "", "", ""
	}
	// The bytes may be those of a server, which encodes some values in other words.
	before, err := h.decode()
	if err == nil {
		data, err = h.form.encode(before)
	}
	if err == nil {
		before, err = h.form.decode(data)
	}
	if err != nil {
		return "", "", ""
	}
	return firstDifference(before, after)
}

// PackedOf returns the encoding of an object that a compact store holds, without decoding or copying it, for package
// journal.
func PackedOf[T any](v object.Value[T]) (p packing.Packed, ok bool) {
	if c, is := v.Encoded.(*cell[T]); is {
		v.Encoded = c.held
	}
	if h, is := v.Encoded.(*encodedObject[T]); is {
		return h.data, true
	}
	return p, false
}

// cell is an object as the store holds it, with the identity that it would otherwise have to
// decode. [Store.Encoder] makes one ahead of time, which the writer completes before it
// publishes it; nothing writes to it after that.
type cell[T any] struct {
	compact compactID
	texts   *identity         // where the identity has no compact form
	object  T                 // if held is nil
	held    object.Encoded[T] // in a form
	ahead   *extracted[T]     // until the cell is in a store
}

// extracted is what the indexes of a store need of an object that is encoded already.
type extracted[T any] struct {
	store  *Store[T]
	values []any // or indexFailure, for each of the indexes that the store had then: indexes are only ever added
}

func (c *cell[T]) identity() identity {
	if c.texts != nil {
		return *c.texts
	}
	return c.compact.texts()
}

// Get implements [object.Encoded].
func (c *cell[T]) Get() T {
	if c.held == nil {
		return c.object
	}
	return c.held.Get()
}

// Encoder returns how objects are encoded in the store's form, ahead of [Store.Apply], which takes
// them without encoding them again. What the indexes that the store has now need of an object is
// read then, from the fields in Reads: index functions run in Encode. Apply reports those that fail. If live, the
// object will be read soon: its decoded form is then remembered until the garbage collector frees it. It is the
// zero Encoder for a store without a form.
//
// Encode may be called from any goroutine. It does not change the store.
func (s *Store[T]) Encoder(live func() bool) object.Encoder[T] {
	if s.form == nil {
		return object.Encoder[T]{}
	}
	indexes := s.indexes.Load()
	reads := readsOf(*indexes)
	encode := func(obj T, raw []byte) (object.Encoded[T], error) {
		held, err := s.form.hold(obj, raw)
		if err != nil {
			return nil, err
		}
		if whole := raw == nil || reads == nil; whole && live() {
			held.memory.keep(nil, obj, false)
		}
		return &cell[T]{held: held, ahead: &extracted[T]{store: s, values: extract(*indexes, obj, held)}}, nil
	}
	return object.Encoder[T]{Encode: encode, Reads: reads}
}

// readsOf returns the fields that the indexes read; nil if one of them may read any.
func readsOf[T any](indexes []bound[T]) []object.FieldPath {
	all := []object.FieldPath{}
	for _, x := range indexes {
		fields := x.reads()
		if fields == nil {
			return nil
		}
		all = append(all, fields...)
	}
	return all
}

// adopt completes a cell that an Encoder of this store made, and returns the values of its indexes,
// without those of indexes that were added since. It reports false for a cell of another store, or
// one that is in the store already.
func (s *Store[T]) adopt(c *cell[T], id *identity) (values []any, ok bool) {
	x := c.ahead
	if x == nil || x.store != s {
		return nil, false
	}
	c.identify(id)
	c.ahead = nil
	return x.values, true
}

// reported returns the last state of a deleted object, which the store does not hold. A cell that an
// Encoder made would keep the store alive as long as the deletion is kept.
func (s *Store[T]) reported(v object.Value[T]) object.Value[T] {
	if c, ok := v.Encoded.(*cell[T]); ok && c.ahead != nil && c.ahead.store == s {
		c.ahead = nil
	}
	return v
}

// extract has all indexes compute the values of obj. For one that fails the error takes their place.
func extract[T any](indexes []bound[T], obj T, held object.Encoded[T]) []any {
	values := make([]any, len(indexes))
	for i, x := range indexes {
		values[i] = extractOne(x, obj, held)
	}
	return values
}

// indexFailure is the error of an index function, in place of its values.
type indexFailure struct{ error }

func extractOne[T any](x bound[T], obj T, held object.Encoded[T]) (values any) {
	defer func() {
		if p := recover(); p != nil {
			values = indexFailure{fmt.Errorf("index function panicked: %v", p)}
		}
	}()
	if r := x.reading(); r != nil {
		obj = r.Of(object.Value[T]{Encoded: held})
	}
	values, err := x.extract(obj)
	if err != nil {
		return indexFailure{err}
	}
	return values
}

// decoded returns the object of a value. A panic of its form is an error.
func decoded[T any](v object.Value[T]) (obj T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: an encoded object cannot be read: %v", p)
		}
	}()
	return v.Get(), nil
}

var errNil = errors.New("store: a nil object")

// hold makes of an object what the store holds. A panic of a function in the options is an error.
func (s *Store[T]) hold(obj T, id *identity) (p mvcc.Value, err error) {
	if s.direct {
		if p = pointerOf(obj); p == nil {
			return nil, errNil
		}
		return p, nil
	}
	c := &cell[T]{}
	c.identify(id)
	switch {
	case s.form != nil:
		h, err := s.form.hold(obj, nil)
		if err != nil {
			return nil, err
		}
		h.memory.keep(nil, obj, false)
		c.held = h
	case s.onMutation != nil:
		c.held, err = guard(obj, s.copyObject)
	default:
		c.object = obj
	}
	return heldCell(c), err
}

// identify sets the identity of a cell that is not published yet.
func (c *cell[T]) identify(id *identity) {
	c.compact, c.texts = id.compact, nil
	if id.compact == (compactID{}) {
		// Copies, so as not to keep alive the buffer that they were cut from.
		c.texts = &identity{
			uid:     object.UID(strings.Clone(string(id.uid))),
			version: object.Version(strings.Clone(string(id.version))),
		}
	}
}
