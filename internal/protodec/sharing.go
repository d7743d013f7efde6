package protodec

import (
	"unsafe"

	"github.com/tarnproject/tarn/internal/intern"
)

const (
	smallNumbers = 1 << 10

	recallShare = 32 // a state's own parts cost at most the table's limit divided by this
)

// ticket permits a part to be put into the table once it is decoded. A valid one has
// opened a scope.
type ticket struct {
	intern.Ticket
	outer scope
}

// find looks for a part, and opens a scope for it where it is to be taken in.
func (s *state) find(f *field, raw []byte) (*intern.Part, ticket) {
	turn := s.units[f.unit].next(s.objects)
	// The unit belongs to this field only, so comparing the bytes is enough.
	if p := turn.last; p != nil && p.Matches(raw) {
		p.Use()
		turn.note(true)
		s.cost += p.Cost
		return p, ticket{}
	}
	if !turn.worth() {
		return nil, ticket{}
	}
	known, kept := s.share.Lookup(f.key, raw)
	turn.note(known != nil)
	if known != nil {
		s.remember(turn, known)
		s.cost += known.Cost // the object that it becomes part of keeps it alive
		return known, ticket{}
	}
	if kept == 0 {
		return nil, ticket{}
	}
	return nil, ticket{kept, s.open()}
}

// remember makes the part the first to be compared next time. A state keeps its parts alive
// even after the table has evicted them, so their cost is bounded.
func (s *state) remember(turn *turn[*intern.Part], p *intern.Part) {
	cost := p.Cost
	if turn.last != nil {
		cost -= turn.last.Cost
	}
	if s.recall+cost <= s.share.Limit()/recallShare {
		s.recall += cost
		turn.last = p
	}
}

// keep puts the part that find has returned a ticket for into the table: data is its value,
// of n elements.
func (s *state) keep(f *field, t ticket, raw []byte, data unsafe.Pointer, n int, err error) {
	if t.Ticket == 0 {
		return
	}
	inner := s.close(t.outer)
	if err != nil || inner.volatile {
		return
	}
	s.share.Keep(t.Ticket, &intern.Part{Key: f.key, Data: data, Len: n, Cost: inner.cost}, raw)
}

// What pointers to small numbers and to booleans point to where sharing is on. Nothing
// writes to these.
var (
	int32s = counting[int32]()
	int64s = counting[int64]()
	bools  = [2]bool{false, true}
)

func counting[N int32 | int64]() (all [smallNumbers]N) {
	for i := range all {
		all[i] = N(i)
	}
	return all
}

// shortNumber returns a pointer to v: one of the small numbers if objects share memory.
func shortNumber[N int32 | int64](s *state, small *[smallNumbers]N, v N) *N {
	if s.share != nil && v >= 0 && v < smallNumbers {
		return &small[v]
	}
	s.cost += int(unsafe.Sizeof(v))
	return new(v) // not &v, which would be allocated in any case
}

func (s *state) bool(v bool) *bool {
	switch {
	case s.share == nil:
		s.cost++
		return new(v)
	case v:
		return &bools[1]
	}
	return &bools[0]
}
