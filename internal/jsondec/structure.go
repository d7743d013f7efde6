package jsondec

import "unsafe"

// maxFields is how many fields a struct may have on the fast path: as many as fit
// the set of those that have been seen. PodSpec, the largest, has some forty.
const maxFields = 128

// structCodec decodes the fields of a struct. A field that comes twice takes the
// slow path, because encoding/json merges the two values by rules of its own.
type structCodec struct {
	fields []field
	table  []uint8 // field index and one, by hash, then by linear probing; zero is free
	slow   *slowCodec
}

type field struct {
	name   string
	offset uintptr
	codec  codec // nil for a field that is left out
}

func (c *structCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if c.slow != nil {
		return c.slow.decode(s, t, p)
	}
	tok := s.tokens[t]
	if s.raw[tok.start] != '{' {
		return s.null(t)
	}
	var seen [maxFields / 64]uint64
	for k := t + 1; k < tok.next; k = s.tokens[k+1].next {
		i := c.find(s.bytes(k))
		if i < 0 {
			continue
		}
		f := &c.fields[i]
		if f.codec == nil {
			continue
		}
		bit := uint64(1) << (i % 64)
		if seen[i/64]&bit != 0 {
			return false
		}
		seen[i/64] |= bit
		// The field lies inside the struct that p points to.
		if !f.codec.decode(s, k+1, unsafe.Add(p, f.offset)) {
			return false
		}
	}
	return true
}

// index builds the table: at least twice as large as needed, so that probes are short.
func (c *structCodec) index() {
	n := 4
	for n < 3*len(c.fields) {
		n *= 2
	}
	c.table = make([]uint8, n)
	for i := range c.fields {
		h := hashName([]byte(c.fields[i].name))
		for c.table[h&uint32(n-1)] != 0 {
			h++
		}
		c.table[h&uint32(n-1)] = uint8(i + 1)
	}
}

// find returns the index of the field with the name, or -1.
func (c *structCodec) find(name []byte) int {
	mask := uint32(len(c.table) - 1)
	for h := hashName(name); ; h++ {
		i := c.table[h&mask]
		if i == 0 {
			return -1
		}
		if c.fields[i-1].name == string(name) {
			return int(i - 1)
		}
	}
}

// hashName distinguishes the names of a struct's fields by a few of their bytes.
func hashName(b []byte) uint32 {
	if len(b) == 0 {
		return 0
	}
	h := uint32(len(b)) + uint32(b[0])<<8 + uint32(b[len(b)/2])<<16 + uint32(b[len(b)-1])<<24
	h *= 0x9E3779B1
	return h >> 15
}
