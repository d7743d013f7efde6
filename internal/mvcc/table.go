package mvcc

import (
	"math/bits"
	"sync/atomic"
)

// slots is what an open-addressing hash table is made of, whatever its slots hold: groups
// of eight slots, with one byte of the hash for each slot packed into a word, so that a
// lookup compares eight at once and touches a slot only where the byte agrees.
//
// One writer and any number of readers. What a slot holds is written before its byte and
// not changed afterwards, since a reader may be looking: a slot whose key is gone is not
// used again. When slots run out there is another table. Readers of the old one still
// find what was there when they loaded it.
type slots struct {
	groups uint64
	tags   []atomic.Uint64

	// Of the writer:
	keys int // slots in use
	gone int // slots whose key is gone
}

const (
	groupSize = 8
	tagEmpty  = 0x00
	tagGone   = 0x01
	tagUsed   = 0x80 // plus seven bits of the hash

	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// newSlots returns slots for that many keys, with some room to grow.
func newSlots(keys int) slots {
	groups := keys*4/3/groupSize + 1
	return slots{
		groups: uint64(groups),
		tags:   make([]atomic.Uint64, groups),
	}
}

// size returns the number of slots.
func (t *slots) size() int { return len(t.tags) * groupSize }

// full reports whether there is no room for n more keys. One slot in eight stays empty, or
// probes for what is not there would not end.
func (t *slots) full(n int) bool { return (t.keys+t.gone+n)*8 > t.size()*7 }

// sparse reports whether there are far too many slots.
func (t *slots) sparse() bool { return t.size() > 1024 && t.keys*8 < t.size() }

// matching returns the high bit of every byte of word that equals tag. Above a byte that
// does it may also return one that does not; the key tells.
func matching(word uint64, tag uint8) uint64 {
	x := word ^ lows*uint64(tag)
	return (x - lows) &^ x & highs
}

// fold makes a table's hash of one of 64 bits.
func fold(h uint64) uint32 { return uint32(h >> 32) }

func tagOf(h uint32) uint8 { return tagUsed | uint8(h)&0x7f }

// home returns the group where probing begins. It takes the upper bits of the hash, the
// tag the lower ones.
func (t *slots) home(h uint32) uint64 { return uint64(h) * t.groups >> 32 }

// after returns the group to probe after g.
func (t *slots) after(g uint64) uint64 {
	if g++; g == t.groups {
		return 0
	}
	return g
}

// slotIn returns the slot of group g that the lowest bit of m stands for.
func slotIn(g, m uint64) uint64 { return g*groupSize + uint64(bits.TrailingZeros64(m))/8 }

// vacant returns an empty slot for a key of that hash.
func (t *slots) vacant(h uint32) uint64 {
	for g := t.home(h); ; g = t.after(g) {
		// The lowest match is always a true one.
		if empty := matching(t.tags[g].Load(), tagEmpty); empty != 0 {
			return slotIn(g, empty)
		}
	}
}

// use shows a slot, which was vacant and is now filled, to readers.
func (t *slots) use(i uint64, h uint32) {
	t.keys++
	t.setTag(i, tagOf(h))
}

// drop hides a slot from readers. It keeps its content for those that are there already.
func (t *slots) drop(i uint64) {
	t.keys--
	t.gone++
	t.setTag(i, tagGone)
}

func (t *slots) setTag(i uint64, tag uint8) {
	g, shift := i/groupSize, i%groupSize*8
	t.tags[g].Store(t.tags[g].Load()&^(0xff<<shift) | uint64(tag)<<shift)
}

// each calls yield for every slot in use, until it returns false.
func (t *slots) each(yield func(i uint64) bool) {
	for g := range t.tags {
		for m := t.tags[g].Load() & highs; m != 0; m &= m - 1 {
			if !yield(slotIn(uint64(g), m)) {
				return
			}
		}
	}
}

// ids gives out small integers, those given back first.
type ids struct {
	free []uint32
	next uint32 // the first never given out
}

// maxID leaves a bit for the cells of [Members] and a number for their holes.
const maxID = 1<<31 - 2

// take returns an id, and whether it was in use before.
func (x *ids) take() (id uint32, again bool) {
	if n := len(x.free); n > 0 {
		id = x.free[n-1]
		x.free = x.free[:n-1]
		return id, true
	}
	if x.next > maxID {
		panic("mvcc: more than two thousand million keys")
	}
	x.next++
	return x.next - 1, false
}

func (x *ids) give(id uint32) { x.free = append(x.free, id) }
