package jsondec

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
)

// codec decodes values of one Go type.
type codec interface {
	// decode puts the value of token t where p points to, which holds the zero
	// value of the type. It returns false if the slow path must decide; what p
	// points to is then discarded.
	decode(s *state, t uint32, p unsafe.Pointer) bool
}

// compiler makes codecs, one for each type and what is left out of it.
type compiler struct {
	known map[site]codec
}

type site struct {
	t    reflect.Type
	drop *dropping
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	numberType          = reflect.TypeFor[json.Number]()
)

// compile returns the codec for a type. It checks in the order of encoding/json: a pointer is followed before its methods are looked at, and methods
// come before the kind.
func (c *compiler) compile(t reflect.Type, drop *dropping) codec {
	at := site{t, drop}
	if k := c.known[at]; k != nil {
		return k
	}
	if k := wellKnown(t); k != nil {
		return k
	}
	if t.Kind() != reflect.Pointer {
		ptr := reflect.PointerTo(t)
		if ptr.Implements(unmarshalerType) || ptr.Implements(textUnmarshalerType) || t == numberType {
			return newSlow(t, drop)
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolCodec{}
	case reflect.String:
		return textCodec{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intCodec{bits: t.Bits()}
	case reflect.Float64:
		return floatCodec{}
	case reflect.Pointer:
		return c.pointer(at)
	case reflect.Slice:
		return c.slice(at)
	case reflect.Map:
		return c.mapping(at)
	case reflect.Struct:
		return c.structure(at)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return anyCodec{drop}
		}
	}
	return newSlow(t, drop)
}

func newSlow(t reflect.Type, drop *dropping) *slowCodec {
	return &slowCodec{t: t, drop: drop, reaches: intern.Reaches(t), widest: intern.Widest(t)}
}

func (c *compiler) pointer(at site) codec {
	if at.t.Elem().Kind() == reflect.Pointer || at.t.Elem().Kind() == reflect.Interface {
		return newSlow(at.t, at.drop)
	}
	k := &pointerCodec{elemType: at.t.Elem(), volatile: intern.Volatile(at.t.Elem())}
	c.known[at] = k // before its element, which may contain it
	k.elem = c.compile(k.elemType, at.drop)
	return k
}

func (c *compiler) slice(at site) codec {
	elem := at.t.Elem()
	if elem.Kind() == reflect.Uint8 {
		return bytesCodec{}
	}
	k := &sliceCodec{t: at.t, size: elem.Size(), volatile: intern.Volatile(elem)}
	c.known[at] = k
	k.elem = c.compile(elem, at.drop)
	return k
}

func (c *compiler) mapping(at site) codec {
	t := at.t
	if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textUnmarshalerType) {
		return newSlow(t, at.drop)
	}
	if t.Key() == reflect.TypeFor[string]() && t.Elem() == t.Key() {
		return &textMapCodec{drop: at.drop}
	}
	k := &mapCodec{t: t, drop: at.drop}
	c.known[at] = k
	k.elem = c.compile(t.Elem(), nil)
	if at.drop != nil {
		k.special = map[string]codec{}
		for name, sub := range at.drop.fields {
			if !sub.all {
				k.special[name] = c.compile(t.Elem(), sub)
			}
		}
	}
	return k
}

func (c *compiler) structure(at site) codec {
	k := &structCodec{}
	c.known[at] = k
	if !c.addFields(k, at.t, 0, at.drop) || len(k.fields) > maxFields {
		slow := newSlow(at.t, at.drop)
		c.known[at] = slow
		// Types that already refer to k take the slow path through it.
		*k = structCodec{slow: slow}
		return slow
	}
	k.index()
	return k
}

// addFields adds the fields of a struct that lies at offset, those of structs embedded
// in it included. It returns false for what has no fast path: two
// fields of one name, embedded pointers, and numbers in quotes.
func (c *compiler) addFields(k *structCodec, t reflect.Type, offset uintptr, drop *dropping) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		embedded := f.Type
		if f.Anonymous && embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		isStruct := f.Anonymous && embedded.Kind() == reflect.Struct
		if !f.IsExported() && !isStruct {
			continue
		}
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		for option := range strings.SplitSeq(options, ",") {
			if option == "string" {
				return false
			}
		}
		if name == "" && isStruct {
			if f.Type.Kind() == reflect.Pointer || !c.addFields(k, embedded, offset+f.Offset, drop) {
				return false
			}
			continue
		}
		if !f.IsExported() {
			return false // an unexported struct with a name: the slow path knows the rules
		}
		if name == "" {
			name = f.Name
		}
		for i := range k.fields {
			if k.fields[i].name == name {
				return false
			}
		}
		sub := drop.field([]byte(name))
		if sub.leavesOut() {
			k.fields = append(k.fields, field{name: name})
			continue
		}
		field := field{name: name, offset: offset + f.Offset, codec: c.compile(f.Type, sub)}
		if _, ok := field.codec.(textCodec); ok && (comesOnce[name] || name == "name" && t.Name() == "ObjectMeta") {
			field.codec = copyCodec{}
		}
		k.fields = append(k.fields, field)
	}
	return true
}

// comesOnce has the fields whose strings differ from object to object, so that a lookup
// in a table never finds them.
var comesOnce = map[string]bool{"uid": true, "resourceVersion": true, "containerID": true}

// validName reports whether encoding/json accepts a name in a tag.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}
