package jsondec

import (
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
)

// Sub-objects of more than maxShared bytes are seldom equal, and cost to hash.
const maxShared = 4 << 10

// ticket permits the value of a token to be kept in the table once it is decoded.
type ticket struct {
	intern.Ticket
	owner     unsafe.Pointer
	allocated int // of the state, when decoding began
	volatile  int
}

// shared looks for the value of token t, which owner would decode, unless it is volatile.
// Equal bytes mean different things to other owners. What it finds counts as allocated,
// because an object that has it keeps it alive.
func (s *state) shared(owner unsafe.Pointer, t uint32, volatile bool) (*intern.Part, ticket) {
	if s.share == nil || volatile {
		return nil, ticket{}
	}
	raw := s.source(t)
	if len(raw) > maxShared {
		return nil, ticket{}
	}
	found, kept := s.share.Lookup(intern.Key{Type: owner}, raw)
	if found != nil {
		s.allocated += found.Cost
	}
	return found, ticket{kept, owner, s.allocated, s.volatile}
}

// keep offers the value of token t, of n elements, to the table, if shared returned a
// ticket and the value holds nothing that its readers may write to (O02): see
// [intern.Volatile].
func (s *state) keep(k ticket, t uint32, data unsafe.Pointer, n int) {
	if k.Ticket == 0 || s.volatile != k.volatile {
		return
	}
	raw := s.source(t)
	// Strings are not counted in allocated; they have at most as many bytes as raw.
	cost := s.allocated - k.allocated + len(raw)
	s.share.Keep(k.Ticket, &intern.Part{Key: intern.Key{Type: k.owner}, Data: data, Len: n, Cost: cost}, raw)
}
