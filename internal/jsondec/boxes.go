package jsondec

import (
	"hash/maphash"
	"sync/atomic"
)

// boxes is a small table of strings and numbers as interface values, for unstructured
// objects: an interface that holds a string costs a header of its own beside the text.
// It is bounded. As in [intern.Strings], a value is taken in when it comes for the second
// time, and then replaces another. It begins small and grows as [intern.Strings] does. A nil one allocates a new
// box each time.
type boxes struct {
	seed      maphash.Seed
	slots     atomic.Pointer[[]boxSlot]
	forgotten atomic.Int64 // marks since slots was made
}

type boxSlot struct {
	held atomic.Pointer[box]
	seen atomic.Uint32
}

type box struct {
	source string // a number's digits, a string's text
	value  any
}

const (
	leastBoxes = 128
	mostBoxes  = 8192
	boxLength  = 64 // longer strings are seldom equal
)

func newBoxes() *boxes {
	b := &boxes{seed: maphash.MakeSeed()}
	slots := make([]boxSlot, leastBoxes)
	b.slots.Store(&slots)
	return b
}

func (b *boxes) at(h uint64) *boxSlot {
	slots := *b.slots.Load()
	return &slots[h&uint64(len(slots)-1)]
}

// text returns the string of token t. A short string is not looked up in the table of
// strings too: one hash is enough.
func (b *boxes) text(s *state, t uint32) any {
	source := s.bytes(t)
	if b == nil || len(source) > boxLength {
		return s.strings.Bytes(source)
	}
	h := maphash.Bytes(b.seed, source)
	slot := b.at(h)
	if held := slot.held.Load(); held != nil && held.source == string(source) {
		if _, ok := held.value.(string); ok {
			return held.value
		}
	}
	v := string(source)
	return b.take(slot, h, v, v)
}

// number returns the number of token t.
func (b *boxes) number(s *state, t uint32) (any, bool) {
	source := s.source(t)
	if b == nil || len(source) < 3 || len(source) > boxLength {
		return s.number(t) // the runtime has the small ones already
	}
	h := maphash.Bytes(b.seed, source) + 1
	slot := b.at(h)
	if held := slot.held.Load(); held != nil && held.source == string(source) {
		if _, ok := held.value.(string); !ok {
			return held.value, true
		}
	}
	v, ok := s.number(t)
	if !ok {
		return nil, false
	}
	return b.take(slot, h, string(source), v), true
}

// take puts a value that comes for the second time into its slot.
func (b *boxes) take(slot *boxSlot, h uint64, source string, v any) any {
	mark := uint32(h>>32) | 1
	if last := slot.seen.Load(); last != mark {
		slot.seen.Store(mark)
		if old := b.slots.Load(); last != 0 && len(*old) < mostBoxes && b.forgotten.Add(1) >= int64(len(*old)/4) {
			slots := make([]boxSlot, 4*len(*old))
			if b.slots.CompareAndSwap(old, &slots) {
				b.forgotten.Store(0)
			}
		}
		return v
	}
	slot.held.Store(&box{source, v})
	return v
}
