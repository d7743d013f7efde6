package jsondec

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"unsafe"

	kjson "sigs.k8s.io/json"
)

// In this file p always points to a value of the type that the codec was compiled for,
// inside an allocation of that type or of one around it. The casts give the value its
// type back, or one with the same layout (a named string is a string); stores through
// them have their write barriers.

// null reports whether token t is null. A null leaves numbers, strings, booleans and
// structs unchanged and sets pointers, slices and maps to nil. Both are the zero value,
// which p already points to.
func (s *state) null(t uint32) bool { return s.first(t) == 'n' }

type boolCodec struct{}

func (boolCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	switch s.first(t) {
	case 't':
		*(*bool)(p) = true
		return true
	case 'f':
		*(*bool)(p) = false
		return true
	}
	return s.null(t)
}

// textCodec takes strings from the table.
type textCodec struct{}

func (textCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if s.first(t) != '"' {
		return s.null(t)
	}
	*(*string)(p) = s.text(t)
	return true
}

// copyCodec copies strings.
type copyCodec struct{}

func (copyCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if s.first(t) != '"' {
		return s.null(t)
	}
	*(*string)(p) = string(s.bytes(t))
	return true
}

type intCodec struct{ bits int }

func (c intCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if ch := s.first(t); ch != '-' && (ch < '0' || ch > '9') {
		return s.null(t)
	}
	if s.tokens[t].n != plain {
		return false
	}
	n, ok := parseInt(s.source(t))
	if !ok {
		return false
	}
	switch c.bits {
	case 8:
		*(*int8)(p) = int8(n)
		return int64(int8(n)) == n
	case 16:
		*(*int16)(p) = int16(n)
		return int64(int16(n)) == n
	case 32:
		*(*int32)(p) = int32(n)
		return math.MinInt32 <= n && n <= math.MaxInt32
	}
	*(*int64)(p) = n
	return true
}

type floatCodec struct{}

func (floatCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if ch := s.first(t); ch != '-' && (ch < '0' || ch > '9') {
		return s.null(t)
	}
	f, err := strconv.ParseFloat(string(s.source(t)), 64)
	*(*float64)(p) = f
	return err == nil
}

// bytesCodec reads base64. Arrays of numbers, which encoding/json accepts too, take
// the slow path.
type bytesCodec struct{}

func (bytesCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if s.first(t) != '"' {
		return s.null(t)
	}
	src := s.bytes(t)
	b := make([]byte, base64.StdEncoding.DecodedLen(len(src)))
	n, err := base64.StdEncoding.Decode(b, src)
	*(*[]byte)(p) = b[:n]
	return err == nil
}

type anyCodec struct{ drop *dropping }

func (c anyCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	v, ok := s.any(t, c.drop, nil, 1)
	*(*any)(p) = v
	return ok
}

// pointerCodec allocates what a pointer points to, or takes it from the table.
type pointerCodec struct {
	elemType reflect.Type
	elem     codec
	volatile bool // what it points to is never shared
}

func (c *pointerCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if s.null(t) {
		return true
	}
	if c.volatile {
		s.volatile++
	}
	found, ticket := s.shared(unsafe.Pointer(c), t, c.volatile)
	if found != nil {
		*(*unsafe.Pointer)(p) = found.Data
		return true
	}
	size := int(c.elemType.Size())
	if s.allocated += size; !s.take(size) {
		return false
	}
	q := reflect.New(c.elemType).UnsafePointer()
	*(*unsafe.Pointer)(p) = q
	if !c.elem.decode(s, t, q) {
		return false
	}
	s.keep(ticket, t, q, 0)
	return true
}

type sliceCodec struct {
	t        reflect.Type
	size     uintptr // of an element
	elem     codec
	volatile bool // elements are never shared
}

func (c *sliceCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	tok := s.tokens[t]
	if s.raw[tok.start] != '[' {
		return s.null(t)
	}
	header := (*sliceHeader)(p)
	v := reflect.NewAt(c.t, p).Elem()
	if tok.n == 0 {
		v.Set(reflect.MakeSlice(c.t, 0, 0))
		return true
	}
	if c.volatile {
		s.volatile++
	}
	found, ticket := s.shared(unsafe.Pointer(c), t, c.volatile)
	if found != nil {
		*header = sliceHeader{found.Data, found.Len, found.Len}
		return true
	}
	size := int(tok.n) * int(c.size)
	if s.allocated += size; !s.take(size) {
		return false
	}
	// Grow allocates in place; MakeSlice would also allocate a header.
	v.Grow(int(tok.n))
	v.SetLen(int(tok.n))
	// n elements have just been allocated, and i stays below n.
	k := t + 1
	for i := range uintptr(tok.n) {
		if !c.elem.decode(s, k, unsafe.Add(header.data, i*c.size)) {
			return false
		}
		k = s.tokens[k].next
	}
	s.keep(ticket, t, header.data, int(tok.n))
	return true
}

// sliceHeader is the layout of every slice. The pointer is one to the garbage
// collector too.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// textMapCodec is for map[string]string: labels, annotations, selectors.
type textMapCodec struct{ drop *dropping }

func (c *textMapCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	tok := s.tokens[t]
	if s.raw[tok.start] != '{' {
		return s.null(t)
	}
	found, ticket := s.shared(unsafe.Pointer(c), t, false)
	if found != nil {
		*(*unsafe.Pointer)(p) = found.Data // a map is one pointer
		return true
	}
	s.allocated += sizeOfMap(tok.n, 32)
	m := make(map[string]string, tok.n)
	for k := t + 1; k < tok.next; k = s.tokens[k+1].next {
		name := s.bytes(k)
		if c.drop.field(name).leavesOut() {
			continue
		}
		var value string
		if !(textCodec{}).decode(s, k+1, unsafe.Pointer(&value)) {
			return false
		}
		m[s.name(name)] = value
	}
	*(*map[string]string)(p) = m
	s.keep(ticket, t, *(*unsafe.Pointer)(p), 0)
	return true
}

// mapCodec is for all other maps.
type mapCodec struct {
	t       reflect.Type
	drop    *dropping
	elem    codec
	special map[string]codec // for keys under which something is left out
}

func (c *mapCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	tok := s.tokens[t]
	if s.raw[tok.start] != '{' {
		return s.null(t)
	}
	found, ticket := s.shared(unsafe.Pointer(c), t, false)
	if found != nil {
		*(*unsafe.Pointer)(p) = found.Data
		return true
	}
	size := sizeOfMap(tok.n, 16+c.t.Elem().Size())
	if s.allocated += size; !s.take(size) {
		return false
	}
	m := reflect.MakeMapWithSize(c.t, int(tok.n))
	key := reflect.New(c.t.Key()).Elem()
	value := reflect.New(c.t.Elem())
	for k := t + 1; k < tok.next; k = s.tokens[k+1].next {
		name := s.bytes(k)
		if c.drop.field(name).leavesOut() {
			continue
		}
		elem := c.elem
		if special := c.special[string(name)]; special != nil {
			elem = special
		}
		value.Elem().SetZero()
		if !elem.decode(s, k+1, value.UnsafePointer()) {
			return false
		}
		key.SetString(s.name(name))
		m.SetMapIndex(key, value.Elem())
	}
	*(*unsafe.Pointer)(p) = m.UnsafePointer()
	s.keep(ticket, t, m.UnsafePointer(), 0)
	return true
}

// sizeOfMap estimates what a map of n entries of the size takes: Go's maps double
// when full and hold at least eight entries.
func sizeOfMap(n uint32, entry uintptr) int { return 48 + max(8, 2*int(n))*int(entry+1) }

// slowCodec leaves one value to the type's own UnmarshalJSON, or else to sigs.k8s.io/json.
type slowCodec struct {
	t       reflect.Type
	drop    *dropping
	reaches bool // values that are never shared
	widest  int  // see [intern.Widest]
}

func (c *slowCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if c.reaches {
		s.volatile++
	}
	if !s.takeAll(t, c.widest) {
		return false
	}
	raw, into := s.filtered(t, c.drop), reflect.NewAt(c.t, p).Interface()
	if own, ok := into.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(raw) == nil
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into) == nil
}

// filtered returns the bytes of token t without what is left out.
func (s *state) filtered(t uint32, drop *dropping) []byte {
	if drop == nil {
		b := s.source(t)
		return b[:len(b):len(b)]
	}
	return s.filter(nil, t, drop, nil)
}
