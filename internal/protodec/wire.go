package protodec

import "errors"

// What can be wrong with the bytes. They are wrapped once, with the type that was
// being decoded, and never show the bytes themselves.
var (
	errTruncated = errors.New("the message ends within a field")
	errTag       = errors.New("a field has an impossible number or wire type")
	errWireType  = errors.New("a field has the wire type of another kind of field")
	errDepth     = errors.New("messages are nested too deep")
)

// The wire types.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireGroup   = 3
	wireEnd     = 4
	wireFixed32 = 5
)

// varint reads the number at b[i:] and returns it with the index after it, which is
// negative where there is none. As in the generated code, ten bytes are the most, and
// what the tenth has beyond 64 bits is lost.
func varint(b []byte, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if i >= len(b) {
			return 0, -1
		}
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i
		}
	}
	return 0, -1
}

// span reads the length at b[i:] and returns where what has that length begins and
// ends; end is negative where it does not fit into b.
func span(b []byte, i int) (start, end int) {
	if i < len(b) && b[i] < 0x80 { // nearly always
		start, end = i+1, i+1+int(b[i])
		if end > len(b) {
			return 0, -1
		}
		return start, end
	}
	v, start := varint(b, i)
	if start < 0 || v > uint64(len(b)-start) {
		return 0, -1
	}
	return start, start + int(v)
}

// skip returns the index after the field whose tag is at b[i:], or a negative number.
// Groups are skipped as the generated code does it: ends are counted, not matched, and
// numbers within a group are not looked at.
func skip(b []byte, i int) int {
	for depth := 0; ; {
		wire, next := varint(b, i)
		if next < 0 {
			return -1
		}
		i = next
		switch wire & 7 {
		case wireVarint:
			_, i = varint(b, i)
		case wireFixed64:
			i += 8
		case wireBytes:
			_, i = span(b, i)
		case wireGroup:
			depth++
		case wireEnd:
			if depth--; depth < 0 {
				return -1
			}
		case wireFixed32:
			i += 4
		default:
			return -1
		}
		if i < 0 || i > len(b) {
			return -1
		}
		if depth == 0 {
			return i
		}
	}
}

// runOf counts the fields that follow one another at b[at:] with the very tag that
// ends before b[i:]. It returns where they end and how many they are: none, if the
// first is broken already.
func runOf(b []byte, at, i int) (end, n int) {
	tag := b[at:i]
	end = at
	for {
		_, next := span(b, i)
		if next < 0 {
			return end, n
		}
		end = next
		n++
		i = end + len(tag)
		if i > len(b) || string(b[end:i]) != string(tag) {
			return end, n
		}
	}
}
