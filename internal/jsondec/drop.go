package jsondec

import (
	"errors"

	"github.com/tarnproject/tarn/object"
)

// dropping is a tree of the fields to leave out, by name. A nil one leaves out
// nothing.
type dropping struct {
	all    bool // this value itself
	fields map[string]*dropping
}

func newDropping(paths []object.FieldPath) (*dropping, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &dropping{}
	for _, p := range paths {
		if len(p) == 0 {
			return nil, errors.New("jsondec: a field path to drop is empty")
		}
		d := root
		for _, name := range p {
			if d.fields == nil {
				d.fields = map[string]*dropping{}
			}
			if d.fields[name] == nil {
				d.fields[name] = &dropping{}
			}
			d = d.fields[name]
		}
		d.all = true
	}
	return root, nil
}

// field returns what is to be left out of the field.
func (d *dropping) field(name []byte) *dropping {
	if d == nil {
		return nil
	}
	return d.fields[string(name)]
}

// leavesOut reports whether the value itself is to be left out.
func (d *dropping) leavesOut() bool { return d != nil && d.all }

// filter appends the bytes of token t to out without what d leaves out and, if k is not nil, without
// the fields that k does not decode.
func (s *state) filter(out []byte, t uint32, d *dropping, k codec) []byte {
	tok := s.tokens[t]
	c := s.raw[tok.start]
	if p, ok := k.(*pointerCodec); ok {
		k = p.elem
	}
	if c != '{' && c != '[' || d == nil && !hasElements(k) {
		return append(out, s.raw[tok.start:tok.end]...)
	}
	out = append(out, c)
	for i, first := t+1, true; i < tok.next; {
		v, sub, known := i, d, true
		var elem codec
		if c == '{' {
			v = i + 1
			name := s.bytes(i)
			sub = d.field(name)
			elem, known = memberOf(k, name)
		} else if list, ok := k.(*sliceCodec); ok {
			elem = list.elem
		}
		if known && !sub.leavesOut() {
			if !first {
				out = append(out, ',')
			}
			first = false
			if c == '{' {
				out = append(out, s.raw[s.tokens[i].start:s.tokens[i].end]...)
				out = append(out, ':')
			}
			out = s.filter(out, v, sub, elem)
		}
		i = s.tokens[v].next
	}
	return append(out, c+2)
}

// hasElements reports whether values of k may have fields that k does not decode.
func hasElements(k codec) bool {
	switch k := k.(type) {
	case *structCodec:
		return k.slow == nil
	case *sliceCodec, *mapCodec:
		return true
	}
	return false
}

// memberOf returns the codec of a member of an object, nil for one that decodes all of it, and
// whether k decodes the member at all.
func memberOf(k codec, name []byte) (member codec, known bool) {
	switch k := k.(type) {
	case *structCodec:
		if k.slow == nil {
			if i := k.find(name); i >= 0 {
				return k.fields[i].codec, true
			}
			return nil, false
		}
	case *mapCodec:
		return k.elem, true
	}
	return nil, true
}
