package protodec

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

// Options configure a [Decoder]. Drop and Only change the decoded values.
type Options struct {
	// Type is the type of the objects, a pointer, if T is an interface. Defaults to T.
	Type reflect.Type
	// Drop names the fields to leave out, by the names that they have in JSON. A path
	// into a map drops the entry with that key; a map that loses all its entries is nil,
	// as if it had been encoded without them. Defaults to none.
	Drop []object.FieldPath
	// Only names the fields to decode; all others are left zero and are not checked. A path
	// into a map decodes the entry with that key. Defaults to nil: all fields. An empty list that is not nil is none.
	Only []object.FieldPath
	// Strings is the table of strings that repeat; several decoders may have the same.
	// Defaults to none: every object has its own strings.
	Strings *intern.Strings
	// Share is the table of parts that repeat; several decoders may have the same. With
	// it, objects share memory, and no receiver may write to one. Defaults to none:
	// objects share nothing.
	Share *intern.Parts
}

// Decoder decodes messages of one type. It may be used by any number of goroutines.
type Decoder[T any] struct {
	engine *engine
	typ    reflect.Type // T is an interface, and objects are pointers to it; nil if T is that pointer
}

// For compiles a decoder for T, a pointer to an API type such as *corev1.Pod, or an interface; see
// Options.Type. The error names the field path of opts.Drop that does not exist, or says why the type
// cannot be compiled, as [Supported] does.
func For[T any](opts Options) (*Decoder[T], error) {
	t := reflect.TypeFor[T]()
	d := &Decoder[T]{}
	if t.Kind() == reflect.Interface && opts.Type != nil && opts.Type.Implements(t) {
		t, d.typ = opts.Type, opts.Type.Elem()
	}
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("protodec: %s is not a pointer to a struct", t)
	}
	var err error
	d.engine, err = newEngine(t.Elem(), opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Decode decodes the protobuf message of an object, without the envelope. It keeps
// nothing of raw. An error contains nothing of the contents.
func (d *Decoder[T]) Decode(raw []byte) (T, error) {
	p, err := d.engine.decode(raw)
	if err != nil {
		var none T
		return none, err
	}
	if d.typ != nil {
		return reflect.NewAt(d.typ, p).Interface().(T), nil
	}
	// T is a pointer to the engine's type, as For has checked, and so is p.
	return *(*T)(unsafe.Pointer(&p)), nil
}

// Reuse gives an object back that Decode returned. No other goroutine may have it, and the caller may not
// read it after the call: Decode fills its memory again. What the object points to stays as it is.
func (d *Decoder[T]) Reuse(obj T) {
	reflect.ValueOf(obj).Elem().SetZero()
	d.engine.spare.Put(obj)
	if !d.engine.reuses.Load() {
		d.engine.reuses.Store(true)
	}
}

// Supported returns why a type, or what it points to, cannot be compiled; nil if it can.
func Supported(t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("protodec: %s is not a struct", t)
	}
	if _, err := newCompiler().message(t, nil, nil); err != nil {
		return fmt.Errorf("protodec: %w", err)
	}
	return nil
}

func newCompiler() *compiler { return &compiler{plans: map[planKey]*message{}} }

// engine is a decoder whose type is known only when it runs.
type engine struct {
	root   *message
	share  *intern.Parts
	states sync.Pool   // of *state
	spare  sync.Pool   // of zero objects: pointers to the type of root
	reuses atomic.Bool // spare was filled; an empty pool is slow to ask
}

func newEngine(t reflect.Type, opts Options) (*engine, error) {
	drops, err := newDrops(t, opts.Drop)
	if err != nil {
		return nil, err
	}
	c := newCompiler()
	root, err := c.message(t, drops, newTree(opts.Only))
	if err != nil {
		return nil, fmt.Errorf("protodec: %w", err)
	}
	e := &engine{root: root, share: opts.Share}
	e.states.New = func() any {
		return &state{
			strings: opts.Strings,
			sites:   make([]place[string], c.sites),
			units:   make([]place[*intern.Part], c.units+1),
			lists:   make([]listMaker, c.lists),
		}
	}
	return e, nil
}

// decode returns a pointer to a new value of the engine's type.
func (e *engine) decode(raw []byte) (unsafe.Pointer, error) {
	s := e.states.Get().(*state)
	s.share = e.share
	if e.reuses.Load() {
		if obj := e.spare.Get(); obj != nil {
			s.spare = reflect.ValueOf(obj).UnsafePointer()
		}
	}
	p, err := s.object(e.root, raw)
	if err == errUnshare {
		// Rare enough to begin again: no encoder writes such messages.
		s.share = nil
		p, err = s.object(e.root, raw)
	}
	if cap(s.pending) <= maxScratch && cap(s.entries) <= maxScratch {
		e.states.Put(s)
	}
	if err != nil {
		return nil, fmt.Errorf("protodec: decode %s: %w", e.root.typ, err)
	}
	return p, nil
}

// errUnshare asks for the object to be decoded without sharing: a part that may be
// shared was about to be changed by a later piece of the message.
var errUnshare = errors.New("a shared part would be merged into")
