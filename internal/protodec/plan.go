package protodec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
)

// message is the plan for one Go type: how to read its protobuf message into a value.
// Plans are made by a compiler and never change afterwards.
type message struct {
	typ    reflect.Type
	size   int
	form   form
	site   int32   // of a quantity: where its text's repeating is learned
	fields []field // by number

	cut      bool // it may have fields that are dropped
	volatile bool // its values are never shared where they have an address
	reaches  bool // of a custom one: it may lead to such values
}

// form says how the bytes of a message become a value.
type form uint8

const (
	byFields  form = iota // a struct with tags
	byList                // a slice that is a message of its own: its elements are field 1
	timestamp             // metav1.Time
	microtime             // metav1.MicroTime
	quantity              // resource.Quantity
	custom                // whatever the type's own Unmarshal does
)

// op is what is to be done with a field.
type op uint8

const (
	opNone op = iota // no such field, or one to drop

	opInt32 // the varints; unsigned ones have the same bits
	opInt64
	opBool
	opInt32Ptr
	opInt64Ptr
	opBoolPtr

	opFixed32 // float and double
	opFixed64
	opFixed32Ptr
	opFixed64Ptr

	opInt32s // the repeated scalars, packed or not
	opInt64s
	opBools

	opString // from here on all are length-delimited
	opStringPtr
	opBytes
	opMessage
	opMessagePtr
	opStrings  // repeated
	opMessages // repeated
	opMap
)

// field is the plan for one field of a message. What every field needs comes first and
// is small: a message looks at many fields once.
type field struct {
	op   op
	kind mapKind // of an opMap
	off  uint32
	site int32      // of strings, and of a map's values: where their repeating is learned
	keys int32      // of a map's keys: the same
	unit int32      // of parts that may be shared: the same; zero for none
	list int32      // of repeated messages: where their slices are made
	elem uint32     // size of an element of a repeated field
	sub  *message   // of messages, and of a map's values where those are messages
	key  intern.Key // what a shared part must have in common with this field

	typ    reflect.Type // of the field
	absent []string     // map keys to drop
	only   []string     // map keys to keep; nil for all
}

// mapKind is how a map is filled. Key and value types that differ only in name have the
// same layout and hash alike, so that a map of one can be filled as one of the other.
type mapKind uint8

const (
	mapReflect    mapKind = iota // any other
	mapStrings                   // map[string]string
	mapBytes                     // map[string][]byte
	mapQuantities                // map[string]resource.Quantity
)

// maxNumber bounds the table of fields. No API type comes near it.
const maxNumber = 1 << 10

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
	quantityType  = reflect.TypeFor[resource.Quantity]()

	unmarshaler = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
	jsonDecoder = reflect.TypeFor[json.Unmarshaler]()
)

// compiler makes the plans of all types that one type leads to.
type compiler struct {
	plans map[planKey]*message
	sites int32
	units int32
	lists int32
}

type planKey struct {
	typ         reflect.Type
	drops, only *dropNode
}

var errNoUnmarshal = errors.New("it has no Unmarshal method, so it is no protobuf message")

// message returns the plan for t, which is a struct or a slice type. Fields that only
// does not lead to are skipped, unless it is nil.
func (c *compiler) message(t reflect.Type, drops, only *dropNode) (*message, error) {
	key := planKey{t, drops, only}
	if m := c.plans[key]; m != nil {
		return m, nil
	}
	if !reflect.PointerTo(t).Implements(unmarshaler) {
		return nil, fmt.Errorf("type %s: %w", t, errNoUnmarshal)
	}
	m := &message{typ: t, size: int(t.Size()), volatile: intern.Volatile(t), cut: drops != nil}
	c.plans[key] = m // before the fields: a type may lead to itself
	switch {
	case t == timeType:
		m.form = timestamp
	case t == microTimeType:
		m.form = microtime
	case t == quantityType:
		m.form, m.site = quantity, c.sites
		c.sites++
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		m.form = byList
		f := field{typ: t}
		c.strings(&f, opStrings)
		m.fields = []field{{}, f}
	case t.Kind() == reflect.Struct && described(t):
		for i := range t.NumField() {
			if err := c.add(m, t.Field(i), drops, only); err != nil {
				return nil, fmt.Errorf("%s: %w", t, err)
			}
		}
	default:
		m.form, m.reaches = custom, intern.Reaches(t)
	}
	return m, nil
}

// described reports whether the tags of a struct say all about its message: nothing is
// unexported, and what has no tag is no part of the API either.
func described(t reflect.Type) bool {
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			return false
		}
		if tag := sf.Tag.Get("protobuf"); tag == "" || tag == "-" {
			untagged := sf.Type == reflect.TypeFor[metav1.TypeMeta]() || sf.Tag.Get("json") == "-"
			if !untagged {
				return false
			}
		}
	}
	return true
}

// add plans one field of a struct.
func (c *compiler) add(m *message, sf reflect.StructField, drops, only *dropNode) error {
	tag := sf.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return nil
	}
	parts := strings.Split(tag, ",")
	number := 0
	if len(parts) > 1 {
		number, _ = strconv.Atoi(parts[1])
	}
	if number <= 0 || number > maxNumber {
		return fmt.Errorf("field %s: no usable number in the tag %q", sf.Name, tag)
	}
	if missing := number + 1 - len(m.fields); missing > 0 {
		m.fields = append(m.fields, make([]field, missing)...)
	}
	if m.fields[number].op != opNone {
		return fmt.Errorf("field %s: number %d is taken", sf.Name, number)
	}
	f := field{off: uint32(sf.Offset), typ: sf.Type}
	below := drops.below(sf)
	if below.ended() {
		return nil // as unknown: skipped
	}
	if only != nil {
		if only = only.below(sf); only == nil {
			return nil
		}
		if only.ends {
			only = nil // all of the field
		}
	}
	if err := c.plan(&f, parts[0], below, only); err != nil {
		return fmt.Errorf("field %s: %w", sf.Name, err)
	}
	m.fields[number] = f
	return nil
}

// plan fills in what is to be done with a field of type f.typ, encoded as wire.
func (c *compiler) plan(f *field, wire string, drops, only *dropNode) error {
	t := f.typ
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	choose := func(value, ptr op) {
		if f.op = value; pointer {
			f.op = ptr
		}
	}
	if wire != "varint" && wire != "bytes" && wire != "fixed32" && wire != "fixed64" {
		return fmt.Errorf("type %s, encoded as %s, is not supported", f.typ, wire)
	}
	// Some tags of the API say "bytes" where the field is a number: the Go type, from
	// which the generated code was made, is what counts.
	var err error
	switch kind := t.Kind(); {
	case strings.HasPrefix(wire, "fixed") != (kind == reflect.Float32 || kind == reflect.Float64):
		return fmt.Errorf("type %s, encoded as %s, is not supported", f.typ, wire)
	case kind == reflect.Int32 || kind == reflect.Uint32:
		choose(opInt32, opInt32Ptr)
	case kind == reflect.Int64 || kind == reflect.Uint64:
		choose(opInt64, opInt64Ptr)
	case kind == reflect.Bool:
		choose(opBool, opBoolPtr)
	case kind == reflect.Float32:
		choose(opFixed32, opFixed32Ptr)
	case kind == reflect.Float64:
		choose(opFixed64, opFixed64Ptr)
	case kind == reflect.String:
		choose(opString, opStringPtr)
		c.strings(f, f.op)
	case kind == reflect.Struct || kind == reflect.Slice && reflect.PointerTo(t).Implements(unmarshaler):
		choose(opMessage, opMessagePtr)
		f.sub, err = c.message(t, drops, only)
		if pointer && err == nil && f.sub.form != timestamp && f.sub.form != microtime && !f.sub.volatile {
			c.share(f, drops, only)
		}
	case kind == reflect.Slice && !pointer:
		return c.repeated(f, t.Elem(), drops, only)
	case kind == reflect.Map && !pointer:
		return c.mapping(f, drops, only)
	default:
		return fmt.Errorf("type %s is not supported", f.typ)
	}
	return err
}

func (c *compiler) repeated(f *field, elem reflect.Type, drops, only *dropNode) (err error) {
	f.elem = uint32(elem.Size())
	switch elem.Kind() {
	case reflect.Uint8:
		f.op = opBytes
	case reflect.Int32, reflect.Uint32:
		f.op = opInt32s
	case reflect.Int64, reflect.Uint64:
		f.op = opInt64s
	case reflect.Bool:
		f.op = opBools
	case reflect.String:
		c.strings(f, opStrings)
		c.share(f, drops, only)
	case reflect.Struct:
		f.op, f.list = opMessages, c.lists
		c.lists++
		if f.sub, err = c.message(elem, drops, only); err == nil && !f.sub.volatile {
			c.share(f, drops, only)
		}
	default:
		err = fmt.Errorf("type %s is not supported", f.typ)
	}
	return err
}

func (c *compiler) mapping(f *field, drops, only *dropNode) (err error) {
	f.op = opMap
	f.absent, f.only = drops.mapKeys(), only.mapKeys()
	key, elem := f.typ.Key(), f.typ.Elem()
	switch {
	case key.Kind() != reflect.String:
		return fmt.Errorf("type %s is not supported", f.typ)
	case elem.Kind() == reflect.String:
		f.kind = mapStrings
	case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Uint8:
		f.kind = mapBytes
	case elem == quantityType:
		f.kind = mapQuantities
		f.sub, err = c.message(elem, nil, nil)
	case elem.Kind() == reflect.Struct || elem.Kind() == reflect.Slice:
		f.sub, err = c.message(elem, nil, nil)
	default:
		return fmt.Errorf("type %s is not supported", f.typ)
	}
	f.site, f.keys = c.sites, c.sites+1
	c.sites += 2
	c.share(f, drops, only)
	return err
}

func (c *compiler) strings(f *field, op op) {
	f.op, f.site = op, c.sites
	c.sites++
	if op == opStrings {
		f.elem = uint32(f.typ.Elem().Size())
	}
}

// share makes a field's value one that may be shared.
func (c *compiler) share(f *field, drops, only *dropNode) {
	c.units++
	f.unit = c.units
	// A reflect.Type is a pointer to the runtime's only description of the type.
	f.key = intern.Key{Type: reflect.ValueOf(f.typ).UnsafePointer(), Drop: unsafe.Pointer(drops), Only: unsafe.Pointer(only)}
}
