package protodec

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
)

// message decodes a message of fields into the value at base.
func (s *state) message(m *message, base unsafe.Pointer, b []byte) error {
	if s.depth++; s.depth > maxDepth {
		return errDepth
	}
	for i := 0; i < len(b); {
		at := i
		wire := uint64(b[i])
		if i++; wire >= 0x80 {
			if wire, i = varint(b, at); i < 0 {
				return errTruncated
			}
		}
		number := int32(wire >> 3) // a number beyond 32 bits wraps, as in the generated code
		if number <= 0 || wire&7 == wireEnd {
			return errTag
		}
		if int(number) >= len(m.fields) || m.fields[number].op == opNone {
			if i = skip(b, at); i < 0 {
				return errTruncated
			}
			continue
		}
		f := &m.fields[number]
		p := unsafe.Add(base, f.off) // within the value: off is the field's offset in its type
		var err error
		switch {
		case f.op == opString && wire&7 == wireBytes: // the most frequent
			start, end := span(b, i)
			if end < 0 {
				return errTruncated
			}
			s.text(f.site, (*string)(p), b[start:end])
			i = end
		case f.op >= opString:
			if wire&7 != wireBytes {
				return errWireType
			}
			i, err = s.delimited(f, p, b, at, i)
		case f.op >= opInt32s:
			i, err = s.scalars(f, p, b, i, wire&7)
		case f.op >= opFixed32:
			i, err = s.fixed(f, p, b, i, wire&7)
		default:
			if wire&7 != wireVarint {
				return errWireType
			}
			var v uint64
			if v, i = varint(b, i); i < 0 {
				return errTruncated
			}
			s.number(f, p, v)
		}
		if err != nil {
			return err
		}
	}
	s.depth--
	return nil
}

// number stores a varint.
func (s *state) number(f *field, p unsafe.Pointer, v uint64) {
	switch f.op {
	case opInt32:
		*(*int32)(p) = int32(v)
	case opInt64:
		*(*int64)(p) = int64(v)
	case opBool:
		*(*bool)(p) = v != 0
	case opInt32Ptr:
		*(**int32)(p) = shortNumber(s, &int32s, int32(v))
	case opInt64Ptr:
		*(**int64)(p) = shortNumber(s, &int64s, int64(v))
	case opBoolPtr:
		*(**bool)(p) = s.bool(v != 0)
	}
}

// fixed stores a float or a double, by its bits.
func (s *state) fixed(f *field, p unsafe.Pointer, b []byte, i int, wire uint64) (int, error) {
	var v uint64
	size := 8
	switch {
	case f.op == opFixed32 || f.op == opFixed32Ptr:
		size = 4
		if wire != wireFixed32 {
			return 0, errWireType
		}
		if i+size > len(b) {
			return 0, errTruncated
		}
		v = uint64(binary.LittleEndian.Uint32(b[i:]))
	case wire != wireFixed64:
		return 0, errWireType
	case i+size > len(b):
		return 0, errTruncated
	default:
		v = binary.LittleEndian.Uint64(b[i:])
	}
	s.cost += size
	switch f.op {
	case opFixed32:
		*(*uint32)(p) = uint32(v)
	case opFixed64:
		*(*uint64)(p) = v
	case opFixed32Ptr:
		bits := uint32(v)
		*(**uint32)(p) = &bits
	case opFixed64Ptr:
		*(**uint64)(p) = &v
	}
	return i + size, nil
}

// scalars appends varints, one by one or packed. The generated code lets the last
// number of a pack run over its end and continues from there; so does this.
func (s *state) scalars(f *field, p unsafe.Pointer, b []byte, i int, wire uint64) (int, error) {
	end := i + 1
	switch wire {
	case wireVarint:
	case wireBytes:
		start, stop := span(b, i)
		if stop < 0 {
			return 0, errTruncated
		}
		i, end = start, stop
		n := 0
		for _, c := range b[start:stop] {
			if c < 0x80 {
				n++
			}
		}
		growScalars(f.op, p, n)
	default:
		return 0, errWireType
	}
	for i < end {
		var v uint64
		if v, i = varint(b, i); i < 0 {
			return 0, errTruncated
		}
		switch f.op {
		case opInt32s:
			list := (*[]int32)(p)
			*list = append(*list, int32(v))
		case opInt64s:
			list := (*[]int64)(p)
			*list = append(*list, int64(v))
		case opBools:
			list := (*[]bool)(p)
			*list = append(*list, v != 0)
		}
		s.cost += 8
	}
	return i, nil
}

func growScalars(op op, p unsafe.Pointer, n int) {
	if n == 0 || (*sliceHeader)(p).len > 0 {
		return
	}
	switch op {
	case opInt32s:
		*(*[]int32)(p) = make([]int32, 0, n)
	case opInt64s:
		*(*[]int64)(p) = make([]int64, 0, n)
	case opBools:
		*(*[]bool)(p) = make([]bool, 0, n)
	}
}

// delimited decodes a field that has a length. The tag is b[at:i]. It returns where
// what it has decoded ends, which for repeated fields is the end of their run.
func (s *state) delimited(f *field, p unsafe.Pointer, b []byte, at, i int) (int, error) {
	switch f.op {
	case opStrings:
		return s.stringList(f, p, b, at, i)
	case opMessages:
		return s.messageList(f, p, b, at, i)
	case opMap:
		return s.mapping(f, p, b, at, i)
	}
	start, end := span(b, i)
	if end < 0 {
		return 0, errTruncated
	}
	v := b[start:end]
	switch f.op {
	case opStringPtr:
		q := new(string)
		s.cost += int(unsafe.Sizeof(*q))
		s.text(f.site, q, v)
		*(**string)(p) = q
	case opBytes:
		s.cost += len(v)
		*(*[]byte)(p) = append(make([]byte, 0, len(v)), v...)
	case opMessage:
		return end, s.into(f.sub, p, v)
	case opMessagePtr:
		return end, s.pointer(f, (*unsafe.Pointer)(p), v)
	}
	return end, nil
}

// pointer decodes a message that the field at p points to.
func (s *state) pointer(f *field, p *unsafe.Pointer, v []byte) error {
	if s.share == nil || f.unit == 0 {
		s.volatile = s.volatile || f.sub.volatile
		if *p == nil {
			*p = s.alloc(f.sub)
		}
		return s.into(f.sub, *p, v)
	}
	if *p != nil {
		return errUnshare // it may be shared: not to be merged into
	}
	known, t := s.find(f, v)
	if known != nil {
		*p = known.Data
		return nil
	}
	*p = s.alloc(f.sub)
	err := s.into(f.sub, *p, v)
	s.keep(f, t, v, *p, 1, err)
	return err
}

// messageList decodes a run of elements.
func (s *state) messageList(f *field, p unsafe.Pointer, b []byte, at, i int) (int, error) {
	end, n := runOf(b, at, i)
	if n == 0 {
		return 0, errTruncated
	}
	h := (*sliceHeader)(p)
	if s.share == nil || f.unit == 0 || h.len > 0 {
		s.volatile = s.volatile || f.sub.volatile
		return end, s.elements(f, p, b[at:end], i-at, n)
	}
	known, t := s.find(f, b[at:end])
	if known != nil {
		*h = sliceHeader{known.Data, known.Len, known.Len}
		return end, nil
	}
	err := s.elements(f, p, b[at:end], i-at, n)
	s.keep(f, t, b[at:end], h.data, n, err)
	return end, err
}

// elements appends the n messages of a run, in which each has a tag of the given
// length.
func (s *state) elements(f *field, p unsafe.Pointer, run []byte, tag, n int) error {
	if s.room -= n * int(f.elem); s.room < 0 {
		return intern.ErrRoom
	}
	first := s.grow(f, p, n)
	h := (*sliceHeader)(p)
	for i := 0; i < len(run); {
		start, end := span(run, i+tag)
		// Within the slice: first and what the run holds are what grow made room for.
		if err := s.into(f.sub, unsafe.Add(h.data, first*int(f.elem)), run[start:end]); err != nil {
			return err
		}
		first++
		i = end
	}
	return nil
}

// grow appends n zero elements to the slice at p and returns the index of the first.
func (s *state) grow(f *field, p unsafe.Pointer, n int) int {
	s.cost += n * int(f.elem)
	h := (*sliceHeader)(p)
	if h.len > 0 {
		s.settle() // the elements move, and the places of their strings with them
		first, before := h.len, h.cap
		list := reflect.NewAt(f.typ, p).Elem()
		if list.Grow(n); h.cap != before {
			s.room -= before * int(f.elem) // they are allocated again
		}
		list.SetLen(first + n)
		return first
	}
	// The slice is made in a place of the state's: reflect has to look the type up for
	// a new place, and has this one looked up already.
	list := &s.lists[f.list]
	if list.header == nil {
		v := reflect.New(f.typ)
		*list = listMaker{v.Elem(), (*sliceHeader)(v.UnsafePointer())}
	}
	list.value.Grow(n)
	list.value.SetLen(n)
	touch(list.header.data, n*int(f.elem))
	*h, *list.header = *list.header, sliceHeader{}
	return 0
}

// listMaker makes slices of one type: value is the slice that header is the header of.
type listMaker struct {
	value  reflect.Value
	header *sliceHeader
}

// stringList decodes a run of strings.
func (s *state) stringList(f *field, p unsafe.Pointer, b []byte, at, i int) (int, error) {
	end, n := runOf(b, at, i)
	if n == 0 {
		return 0, errTruncated
	}
	run, tag := b[at:end], i-at
	h := (*sliceHeader)(p)
	if s.share == nil || f.unit == 0 || h.len > 0 {
		s.texts(f, p, run, tag, n)
		return end, nil
	}
	known, t := s.find(f, run)
	if known != nil {
		*h = sliceHeader{known.Data, known.Len, known.Len}
		return end, nil
	}
	s.texts(f, p, run, tag, n)
	s.keep(f, t, run, h.data, n, nil)
	return end, nil
}

func (s *state) texts(f *field, p unsafe.Pointer, run []byte, tag, n int) {
	first := (*sliceHeader)(p).len
	if first > 0 {
		s.settle()
	}
	// Slices of other string types have the same layout.
	list := (*[]string)(p)
	if first == 0 {
		*list = make([]string, n)
	} else {
		*list = append(*list, make([]string, n)...)
	}
	s.cost += n * int(f.elem)
	for i := 0; i < len(run); first++ {
		start, end := span(run, i+tag)
		s.text(f.site, &(*list)[first], run[start:end])
		i = end
	}
}
