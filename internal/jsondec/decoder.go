package jsondec

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

// Options says what a [Decoder] leaves out and what it shares.
type Options struct {
	// Type is the type of the objects, a pointer, if T is an interface. Defaults to T.
	Type reflect.Type

	// Drop lists fields that are skipped in the bytes, as if they were absent. Their
	// syntax is checked, their type is not. A path to no field drops nothing. Defaults to none.
	Drop []object.FieldPath

	// Only lists the fields of unstructured objects to decode, beside kind and apiVersion. A path
	// to no field adds nothing. Typed objects are decoded whole. Defaults to nil: all fields. An
	// empty list that is not nil is none.
	Only []object.FieldPath

	// Strings is the table of repeating strings. Defaults to none: each string is a copy.
	Strings *intern.Strings

	// Share is the table of repeating sub-objects. With it, no receiver may write to a
	// decoded object, because others may share its parts. The table keeps parts, of
	// Secrets too, for a while after the last object is freed. Defaults to none: objects
	// share nothing.
	Share *intern.Parts

	// Whole keeps fields that the type does not have in what Trim returns, for other decoders.
	// Defaults to false.
	Whole bool

	// Kind and APIVersion are set on unstructured items of a list that have neither. If
	// Kind is set, an object without a kind is accepted. Defaults to none: an unstructured
	// object must have a kind. Typed objects ignore both.
	Kind, APIVersion string
}

// Decoder decodes objects of one type. Its methods may be called from any number of
// goroutines.
type Decoder[T any] struct {
	m *machine
	// typ is set if T is an interface: objects are pointers to it.
	typ reflect.Type
}

// machine is a Decoder without its type parameter.
type machine struct {
	elem       reflect.Type // T is a pointer to it
	root       codec        // nil for unstructured objects
	widest     int          // of elem; see [intern.Widest]
	drop       *dropping
	only       *dropping // nil for everything
	strings    *intern.Strings
	share      *intern.Parts
	boxes      *boxes
	kind       string
	apiVersion string
	whole      bool
	states     sync.Pool
}

// state is the working memory of one call of Decode.
type state struct {
	lexer
	*machine
	names     [nameSlots]string
	allocated int // about how many bytes, without strings, for [intern.Parts]
	spent     int // bytes of structs that the object takes; see [intern.Room]
	volatile  int // how many values that must not be shared have been decoded
}

// nameSlots is the size of a state's own table of names. A kind has a few hundred.
const nameSlots = 512

// keepTokens is how many tokens a state may hold on to between calls: a document of
// about a megabyte.
const keepTokens = 1 << 16

// For returns a decoder for T, which is *unstructured.Unstructured, a pointer to a
// struct with JSON tags, or an interface; see Options.Type. It compiles the type and all types within it, once; keep what
// it returns.
func For[T any](opts Options) (*Decoder[T], error) {
	t, d := reflect.TypeFor[T](), &Decoder[T]{}
	if t.Kind() == reflect.Interface && opts.Type != nil && opts.Type.Implements(t) {
		t, d.typ = opts.Type, opts.Type.Elem()
	}
	var err error
	if d.m, err = newMachine(t, opts); err != nil {
		return nil, err
	}
	return d, nil
}

// newMachine returns the decoder for the pointer type t.
func newMachine(t reflect.Type, opts Options) (*machine, error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("jsondec: cannot decode into a %v; want a pointer to a struct", t)
	}
	drop, err := newDropping(opts.Drop)
	if err != nil {
		return nil, err
	}
	m := &machine{
		elem: t.Elem(), drop: drop, strings: opts.Strings, share: opts.Share,
		kind: opts.Kind, apiVersion: opts.APIVersion, whole: opts.Whole,
	}
	if opts.Only != nil {
		if m.only, err = newDropping(append([]object.FieldPath{{"kind"}, {"apiVersion"}}, opts.Only...)); err != nil {
			return nil, err
		}
	}
	m.states.New = func() any { return &state{machine: m} }
	if t != reflect.TypeFor[*unstructured.Unstructured]() {
		c := compiler{known: map[site]codec{}}
		m.root, m.widest = c.compile(m.elem, drop), intern.Widest(m.elem)
	} else if opts.Strings != nil {
		m.boxes = newBoxes()
	}
	return m, nil
}

// Decode decodes one object. It keeps nothing of raw. Errors are those of
// sigs.k8s.io/json, and one for an object that would take far more memory than raw.
func (d *Decoder[T]) Decode(raw []byte) (T, error) {
	p, err := d.m.decode(raw)
	if err != nil {
		var none T
		return none, err
	}
	if d.typ != nil {
		return reflect.NewAt(d.typ, p).Interface().(T), nil
	}
	// T is a pointer to machine.elem, which is what p points to.
	return *(*T)(unsafe.Pointer(&p)), nil
}

// decode returns a pointer to a new value of type m.elem.
func (m *machine) decode(raw []byte) (unsafe.Pointer, error) {
	s := m.states.Get().(*state)
	defer s.release()
	valid := s.lex(raw)
	if m.root == nil {
		if valid {
			if u := s.unstructured(); u != nil {
				return unsafe.Pointer(u), nil
			}
		}
	} else if valid {
		v := reflect.New(m.elem)
		if p := v.UnsafePointer(); m.root.decode(s, 0, p) {
			return p, nil
		}
	}
	return s.slowly(raw, valid)
}

// Trim returns the bytes of an object, which Decode accepts, without the fields that the decoder
// drops or, unless T is unstructured or Options.Whole is set, does not know. They are raw itself or in buf, which grows as needed.
// It is not ok for documents that are too unusual to say what a decoder with other Only fields
// makes of them.
func (d *Decoder[T]) Trim(raw []byte, buf *[]byte) (trimmed []byte, ok bool) {
	return d.m.trim(raw, buf)
}

func (m *machine) trim(raw []byte, buf *[]byte) (trimmed []byte, ok bool) {
	s := m.states.Get().(*state)
	defer s.release()
	switch {
	case !s.lex(raw) || s.raw[s.tokens[0].start] != '{' || s.root == nil && !s.decodable():
		return nil, false
	case s.drop == nil && (s.root == nil || s.whole):
		return raw, true
	}
	known := s.root
	if s.whole {
		known = nil
	}
	*buf = s.filter((*buf)[:0], 0, s.drop, known)
	return *buf, true
}

// decodable reports whether all numbers of an unstructured object are in range.
func (s *state) decodable() bool {
	for t := range s.tokens {
		tok := &s.tokens[t]
		if c := s.raw[tok.start]; (c == '-' || c >= '0' && c <= '9') && (tok.n != plain || tok.end-tok.start > 18) {
			if _, ok := s.number(uint32(t)); !ok {
				return false
			}
		}
	}
	return true
}

// slowly decodes with sigs.k8s.io/json.
func (s *state) slowly(raw []byte, valid bool) (unsafe.Pointer, error) {
	if valid && !s.takeAll(0, s.widest) {
		return nil, intern.ErrRoom
	}
	if s.drop != nil && valid {
		raw = s.filter(make([]byte, 0, len(raw)), 0, s.drop, nil)
	}
	v := reflect.New(s.elem)
	var err error
	if s.root == nil {
		err = s.unstructuredSlowly(raw, (*unstructured.Unstructured)(v.UnsafePointer()))
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, v.Interface())
	}
	if err == nil && s.drop != nil && !valid {
		// The lexer refuses nothing else that sigs.k8s.io/json accepts.
		err = errors.New("jsondec: the document is too large to drop fields from it")
	}
	return v.UnsafePointer(), err
}

// release makes the state ready for another document.
func (s *state) release() {
	s.raw, s.allocated, s.spent, s.volatile = nil, 0, 0, 0
	if cap(s.tokens) > keepTokens {
		s.tokens = nil
	}
	if cap(s.open) > keepTokens {
		s.open = nil
	}
	s.states.Put(s)
}

// take reports whether there is room for a number of bytes.
func (s *state) take(bytes int) bool {
	s.spent += bytes
	return s.spent <= intern.Room(len(s.raw))
}

// takeAll is take for a value that sigs.k8s.io/json, or the value's own type, decodes: each
// object, array or null in it may take the given size, and a slice that grows by doubling has been
// allocated about three times.
func (s *state) takeAll(t uint32, widest int) bool {
	for k := t; k < s.tokens[t].next; k++ {
		if c := s.first(k); c == '{' || c == '[' || c == 'n' {
			s.spent += 3 * widest
		}
	}
	return s.take(0)
}

// first returns the first byte of token t, which says what kind of value it is.
func (s *state) first(t uint32) byte { return s.raw[s.tokens[t].start] }

// source returns the bytes of token t.
func (s *state) source(t uint32) []byte {
	tok := &s.tokens[t]
	return s.raw[tok.start:tok.end]
}

// bytes returns the text of the string t. It may be a part of raw.
func (s *state) bytes(t uint32) []byte {
	tok := &s.tokens[t]
	b := s.raw[tok.start+1 : tok.end-1]
	if tok.n == special {
		return unquote(b)
	}
	return b
}

// text returns the text of the string t, shared where it repeats.
func (s *state) text(t uint32) string { return s.strings.Bytes(s.bytes(t)) }

// name returns the text of a name as a string. Names repeat more than anything else,
// so each state keeps the latest; finding one costs less than the hash that a lookup in
// the table of strings takes.
func (s *state) name(b []byte) string {
	if s.strings == nil || len(b) > intern.MaxLength {
		return string(b)
	}
	slot := &s.names[hashName(b)%nameSlots]
	if *slot != string(b) {
		*slot = s.strings.Bytes(b)
	}
	return *slot
}
