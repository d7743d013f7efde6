package jsondec

import (
	"strconv"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// unstructured returns the document as an unstructured object, or nil if the slow
// path must decide.
func (s *state) unstructured() *unstructured.Unstructured {
	if s.first(0) != '{' {
		return nil
	}
	v, ok := s.any(0, s.drop, s.only, 0)
	if !ok {
		return nil
	}
	m := v.(map[string]any)
	kind, _ := m["kind"].(string)
	version, _ := m["apiVersion"].(string)
	switch {
	case s.kind != "":
		if kind == "" && version == "" {
			m["kind"], m["apiVersion"] = s.kind, s.apiVersion
		}
	case kind == "" || strings.Count(version, "/") > 1:
		return nil
	}
	return &unstructured.Unstructured{Object: m}
}

// unstructuredSlowly does what UnstructuredJSONScheme does with an object, or with an
// item of a list where a kind is given.
func (s *state) unstructuredSlowly(raw []byte, u *unstructured.Unstructured) error {
	m := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m); err != nil {
		return err
	}
	u.Object = m
	switch {
	case s.kind == "":
		if u.GroupVersionKind().Kind == "" {
			// The text that apimachinery puts into this error is the whole object.
			return runtime.NewMissingKindErr("an object of the API")
		}
	case u.GetKind() == "" && u.GetAPIVersion() == "":
		u.SetKind(s.kind)
		u.SetAPIVersion(s.apiVersion)
	}
	return nil
}

// shareDepth is how deep below the top sub-objects are looked up. Without a limit a
// hostile document would have its inner bytes hashed once for each level around them.
const shareDepth = 16

// any returns the value of token t as encoding/json would put it into an empty
// interface, with int64 for whole numbers that fit. If only is not nil, what it does not lead to is
// left out.
func (s *state) any(t uint32, drop, only *dropping, depth int) (any, bool) {
	switch s.first(t) {
	case '{', '[':
		if only != nil || depth == 0 || depth > shareDepth {
			return s.composite(t, drop, only, depth)
		}
		found, ticket := s.shared(unsafe.Pointer(drop), t, false)
		if found != nil {
			return *(*any)(found.Data), true
		}
		v, ok := s.composite(t, drop, nil, depth)
		if ok && ticket.Ticket != 0 {
			kept := v // apart from v, so that only what is kept is allocated
			s.keep(ticket, t, unsafe.Pointer(&kept), 0)
		}
		return v, ok
	case '"':
		return s.boxes.text(s, t), true
	case 't':
		return true, true
	case 'f':
		return false, true
	case 'n':
		return nil, true
	}
	return s.boxes.number(s, t)
}

// composite returns an object or an array.
func (s *state) composite(t uint32, drop, only *dropping, depth int) (any, bool) {
	tok := s.tokens[t]
	if s.raw[tok.start] == '[' {
		s.allocated += 24 + 32*int(tok.n) // each with a box
		a := make([]any, tok.n)
		k := t + 1
		for i := range a {
			v, ok := s.any(k, drop, only, depth+1)
			if !ok {
				return nil, false
			}
			a[i] = v
			k = s.tokens[k].next
		}
		return a, true
	}
	n := tok.n
	if only != nil {
		n = min(n, uint32(len(only.fields)))
	}
	s.allocated += sizeOfMap(n, 48)
	m := make(map[string]any, n)
	for k := t + 1; k < tok.next; k = s.tokens[k+1].next {
		name := s.bytes(k)
		sub := drop.field(name)
		if sub.leavesOut() {
			continue
		}
		below := only.field(name)
		switch {
		case only != nil && below == nil:
			continue
		case below.leavesOut(): // a path ends here
			below = nil
		}
		v, ok := s.any(k+1, sub, below, depth+1)
		if !ok {
			return nil, false
		}
		m[s.name(name)] = v
	}
	return m, true
}

// number returns an int64 where there is neither fraction nor exponent and it fits,
// else a float64.
func (s *state) number(t uint32) (any, bool) {
	if s.tokens[t].n == plain {
		if i, ok := parseInt(s.source(t)); ok {
			return i, true
		}
	}
	f, err := strconv.ParseFloat(string(s.source(t)), 64)
	return f, err == nil
}

// parseInt reads a whole number as the lexer passes it.
func parseInt(b []byte) (int64, bool) {
	if len(b) > 18 { // 18 digits always fit
		i, err := strconv.ParseInt(string(b), 10, 64)
		return i, err == nil
	}
	var n int64
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	if b[0] == '-' {
		n = -n
	}
	return n, true
}
