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

// state is the working memory of a decoder. One goroutine at a time uses it.
//
// Strings that are not from the table point into the input at first. pending has their
// addresses, and settle copies them into one piece of memory: once at the end of an object,
// and once for each part that is kept in the table, so that no part keeps an object's
// strings alive.
type state struct {
	strings *intern.Strings
	share   *intern.Parts
	sites   []place[string]       // by field.site
	units   []place[*intern.Part] // by field.unit
	lists   []listMaker
	objects uint32 // how many were begun, to distinguish this one from the last
	recall  int    // cost of the parts that units hold
	depth   int
	room    int            // bytes of structs that the object may still take; negative: too many
	spare   unsafe.Pointer // a zero object to decode into; nil to allocate one

	pending []*string // strings that point into the input
	scope
	entries []entry // of the maps that are being read
}

// scope is the part of an object that settles by itself: the object, or what is to be
// shared.
type scope struct {
	from     int  // where it begins in pending
	cost     int  // bytes allocated for it
	volatile bool // holds something that its readers may write to: see intern.Volatile
}

// object decodes a whole object.
func (s *state) object(m *message, raw []byte) (unsafe.Pointer, error) {
	s.objects++
	s.room = intern.Room(len(raw))
	p := s.spare
	if s.spare = nil; p == nil {
		p = s.alloc(m)
	}
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
	s.room -= m.size
	p := reflect.New(m.typ).UnsafePointer()
	touch(p, m.size)
	return p
}

// touch writes to each page of new memory, which is zero already. Most fields are read
// before they are set, because a message may come in pieces. A fresh page would then fault
// twice, first for the zero page, which costs more than decoding into it.
func touch(p unsafe.Pointer, size int) {
	if size == 0 {
		return
	}
	for i := 0; i < size; i += pageSize {
		*(*byte)(unsafe.Add(p, i)) = 0 // within the memory: i < size
	}
	*(*byte)(unsafe.Add(p, size-1)) = 0
}

// pageSize is the smallest page size of any platform.
const pageSize = 4 << 10

// into decodes a message into the value at p, and merges it with what is there.
func (s *state) into(m *message, p unsafe.Pointer, b []byte) error {
	if s.room < 0 {
		return intern.ErrRoom
	}
	switch m.form {
	case byFields:
		return s.message(m, p, b)
	case byList:
		// A list is not nil if its field is present, even without elements.
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
	s.scope = scope{from: len(s.pending)}
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
func (s *state) text(site int32, p *string, v []byte) {
	if *p != "" && len(s.pending) > s.from {
		// A field that comes again. If its address were noted twice, many of them with one
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
func (s *state) owned(site int32, v []byte) string {
	if known, ok := s.known(site, v); ok {
		return known
	}
	s.cost += len(v)
	return string(v)
}

// known returns the table's string equal to v, if there is one and lookups pay.
func (s *state) known(site int32, v []byte) (string, bool) {
	if s.strings == nil || len(v) > intern.MaxLength {
		return "", false
	}
	t := s.sites[site].next(s.objects)
	if t.last == string(v) {
		t.note(true)
		return t.last, true
	}
	if !t.worth() {
		return "", false
	}
	known, ok := s.strings.Lookup(v)
	t.note(ok)
	if ok {
		t.last = known
	}
	return known, ok
}
