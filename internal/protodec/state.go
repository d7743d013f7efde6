package protodec

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
)

const (
	// maxDepth is how deep messages may be nested. Only a type that leads to itself can
	// get there, and none of k8s.io/api does.
	maxDepth = 10_000

	// maxScratch bounds what a state that waits for its next object may hold on to.
	maxScratch = 1 << 12
)

// state is what decoding an object needs besides the plan. Each belongs to one
// goroutine at a time.
//
// Strings that are not from the table point into the input at first. Where they stand
// is noted in pending, and settle gives them memory of their own in one piece: once at
// the end of an object, and once for each part that goes into the table of shared
// parts, so that no part keeps an object's strings alive.
type state struct {
	strings *intern.Strings
	share   *Sharing
	sites   []habit // by field.site
	units   []habit // by field.unit
	lists   []listMaker
	depth   int

	pending []*string // strings that point into the input
	scope
	entries []entry // of the maps that are being read
}

// scope is the part of an object that settles by itself: the object, or what is to be
// shared.
type scope struct {
	from     int  // where it begins in pending
	cost     int  // bytes allocated for it
	kept     bool // whether it is to be shared, or is part of what is
	volatile bool // holds something that its readers change
}

// object decodes a whole object.
func (s *state) object(m *message, raw []byte) (unsafe.Pointer, error) {
	p := s.alloc(m)
	err := s.into(m, p, raw)
	if err == nil {
		s.settle()
	}
	clear(s.pending)
	clear(s.entries)
	s.pending, s.entries = s.pending[:0], s.entries[:0]
	s.scope, s.depth = scope{}, 0
	return p, err
}

func (s *state) alloc(m *message) unsafe.Pointer {
	s.cost += m.size
	return reflect.New(m.typ).UnsafePointer()
}

// into decodes a message into the value at p, and merges it with what is there.
func (s *state) into(m *message, p unsafe.Pointer, b []byte) error {
	switch m.form {
	case byFields:
		return s.message(m, p, b)
	case byList:
		// A list is there as soon as its field is, though it may have no elements.
		if h := (*sliceHeader)(p); h.data == nil {
			h.data = unsafe.Pointer(&emptyList)
		}
		return s.message(m, p, b)
	default:
		return s.leaf(m, p, b)
	}
}

// emptyList is what lists without elements point to.
var emptyList [0]string

// sliceHeader is the layout of every slice.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// open begins a scope within the present one, and close ends it.
func (s *state) open() scope {
	outer := s.scope
	s.scope = scope{from: len(s.pending), kept: outer.kept}
	return outer
}

func (s *state) close(outer scope) (inner scope) {
	s.settle()
	inner = s.scope
	s.scope = outer
	s.cost += inner.cost
	s.volatile = s.volatile || inner.volatile
	return inner
}

// settle gives the pending strings of the present scope memory of their own.
func (s *state) settle() {
	pending := s.pending[s.from:]
	if len(pending) == 0 {
		return
	}
	total := 0
	for _, p := range pending {
		total += len(*p)
	}
	var b strings.Builder
	b.Grow(total)
	for _, p := range pending {
		b.WriteString(*p)
	}
	rest := b.String()
	for i, p := range pending {
		n := len(*p)
		*p, rest = rest[:n], rest[n:]
		pending[i] = nil
	}
	s.pending = s.pending[:s.from]
	s.cost += total
}

// text sets the string at p to v, which is not kept beyond settle.
func (s *state) text(site int, p *string, v []byte) {
	if *p != "" && len(s.pending) > s.from {
		// A field that comes again. Were its place noted twice, many of them with one
		// long string at the end could make settle's memory grow with their product.
		s.settle()
	}
	if len(v) == 0 {
		*p = ""
		return
	}
	if known, ok := s.known(site, v); ok {
		*p = known
		return
	}
	// v is alive as long as the string is: until settle, within this call of Decode.
	*p = unsafe.String(&v[0], len(v))
	s.pending = append(s.pending, p)
}

// owned returns a string equal to v that is not part of the object's memory.
func (s *state) owned(site int, v []byte) string {
	if known, ok := s.known(site, v); ok {
		return known
	}
	s.cost += len(v)
	return string(v)
}

// known returns the table's string equal to v, if there is one and asking pays.
func (s *state) known(site int, v []byte) (string, bool) {
	if s.strings == nil || len(v) > intern.MaxLength {
		return "", false
	}
	h := &s.sites[site]
	if h.last == string(v) {
		return h.last, true // many fields are the same in all objects
	}
	if !h.worth() {
		return "", false
	}
	known, ok := s.strings.Lookup(v)
	h.note(ok)
	if ok {
		h.last = known
	}
	return known, ok
}

// habit is what a state has learned of one field: whether asking a table pays.
type habit struct {
	asked, found uint16
	pause        uint16 // how often not to ask
	last         string // what was found last, where strings are asked for
}

const (
	habitWindow = 256  // questions from which the field is judged
	habitLeast  = 64   // finds among them that make it worth going on
	habitPause  = 4096 // how long to leave it be otherwise
)

func (h *habit) worth() bool {
	if h.pause > 0 {
		h.pause--
		return false
	}
	return true
}

func (h *habit) note(found bool) {
	h.asked++
	if found {
		h.found++
	}
	if h.asked == habitWindow {
		if h.found < habitLeast {
			h.pause = habitPause
		}
		h.asked, h.found = 0, 0
	}
}
