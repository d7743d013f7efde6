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

// filter appends the bytes of token t to out without what d leaves out.
func (s *state) filter(out []byte, t uint32, d *dropping) []byte {
	tok := s.tokens[t]
	c := s.raw[tok.start]
	if d == nil || c != '{' && c != '[' {
		return append(out, s.raw[tok.start:tok.end]...)
	}
	out = append(out, c)
	for k, first := t+1, true; k < tok.next; {
		v, sub := k, d
		if c == '{' {
			v = k + 1
			sub = d.field(s.bytes(k))
		}
		if !sub.leavesOut() {
			if !first {
				out = append(out, ',')
			}
			first = false
			if c == '{' {
				out = append(out, s.raw[s.tokens[k].start:s.tokens[k].end]...)
				out = append(out, ':')
			}
			out = s.filter(out, v, sub)
		}
		k = s.tokens[v].next
	}
	return append(out, c+2)
}
