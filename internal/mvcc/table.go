package mvcc

import (
	"math/bits"
	"sync/atomic"
)

// table is a hash table from 64-bit hashes to ids, with open addressing. It does not know the
// keys: it returns every id that may have a hash, and the caller compares the key of the id.
//
// One writer changes it while any number of readers search it. An id that some revision sees
// keeps its slot. The slot of a removed id is reused. When no slot is left, the writer makes
// a larger table and publishes that.
//
// A search touches one cache line of the table in nearly all cases.
type table struct {
	groups []group

	// Writer only:
	ids  int // slots in use
	gone int // slots that were in use and that probes must pass
}

// group is one cache line with ten slots. Each slot has a tag of sixteen bits; tags are packed
// into words so that a search compares four at once.
type group struct {
	tags [3]atomic.Uint64
	ids  [groupSlots]atomic.Uint32
}

const (
	groupSlots = 10

	tagEmpty = 0      // no probe ever went past a group with an empty slot
	tagGone  = 1      // free, but probes may have gone past it
	tagNone  = 2      // pads the last word, which has two lanes without a slot
	tagUsed  = 0x8000 // plus fifteen bits of the hash

	lows      = 0x0001000100010001
	highs     = 0x8000800080008000
	lastEmpty = tagNone<<48 | tagNone<<32
)

// newTable returns a table with room for n ids.
func newTable(n int) *table {
	t := &table{groups: make([]group, n*6/5/groupSlots+1)}
	for i := range t.groups {
		t.groups[i].tags[2].Store(lastEmpty)
	}
	return t
}

// full reports whether there is no room for n more ids. One slot in eight stays empty to keep
// probes short.
func (t *table) full(n int) bool { return (t.ids+t.gone+n)*8 > len(t.groups)*groupSlots*7 }

// sparse reports whether most of a large table is empty.
func (t *table) sparse() bool { return len(t.groups) > 100 && t.ids*8 < len(t.groups)*groupSlots }

// rebuilt returns a table with the same ids and room for n more. hash returns the hash of an id.
func (t *table) rebuilt(n int, hash func(id uint32) uint64) *table {
	if n == 1 {
		n = t.ids/8 + 1 // ids that come one by one must not rebuild it each time
	}
	c := newTable(t.ids + n)
	for i := range t.groups {
		g := &t.groups[i]
		for slot := range g.ids {
			if g.tag(slot)&tagUsed != 0 {
				id := g.ids[slot].Load()
				c.insert(hash(id), id)
			}
		}
	}
	return c
}

// equal returns the high bit of every lane of word that equals tag. It may also return the lane
// above such a one, which is why callers compare keys.
func equal(word uint64, tag uint16) uint64 {
	x := word ^ lows*uint64(tag)
	return (x - lows) &^ x & highs
}

// matches returns a bit for each slot that may have the tag, for slotOf. It compares all slots
// without a branch: the matching slot is random, and a mispredicted branch costs as much as the
// rest of the search.
func (g *group) matches(tag uint16) uint64 {
	return equal(g.tags[0].Load(), tag)>>15 | equal(g.tags[1].Load(), tag)>>14 | equal(g.tags[2].Load(), tag)>>13
}

// slotOf returns the slot of the lowest bit that matches returned.
func slotOf(found uint64) int {
	bit := bits.TrailingZeros64(found)
	return bit%16*4 + bit/16
}

func tagOf(hash uint64) uint16 { return tagUsed | uint16(hash) }

// home returns the group where probing begins: by the upper bits of the hash, while the tag is
// made of the lower ones.
func (t *table) home(hash uint64) int { return int((hash >> 32) * uint64(len(t.groups)) >> 32) }

// after returns the group to probe after g.
func (t *table) after(g int) int {
	if g++; g == len(t.groups) {
		return 0
	}
	return g
}

// insert adds an id. The table must not be full.
func (t *table) insert(hash uint64, id uint32) {
	t.ids++
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for slot := range groupSlots {
			tag := g.tag(slot)
			if tag != tagEmpty && tag != tagGone {
				continue
			}
			if tag == tagGone {
				t.gone--
			}
			g.ids[slot].Store(id) // before a reader can see the tag
			g.setTag(slot, tagOf(hash))
			return
		}
	}
}

// remove takes out an id that was inserted with that hash.
func (t *table) remove(hash uint64, id uint32) {
	tag := tagOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			slot := slotOf(f)
			if g.ids[slot].Load() != id || g.tag(slot) != tag {
				continue
			}
			t.ids--
			if g.empty() { // then no probe ever went past this group
				g.setTag(slot, tagEmpty)
			} else {
				g.setTag(slot, tagGone)
				t.gone++
			}
			return
		}
		if g.empty() {
			panic("mvcc: an id is missing from its table")
		}
	}
}

func (g *group) empty() bool { return g.matches(tagEmpty) != 0 }

func (g *group) tag(slot int) uint16 { return uint16(g.tags[slot/4].Load() >> (slot % 4 * 16)) }

func (g *group) setTag(slot int, tag uint16) {
	w, shift := &g.tags[slot/4], slot%4*16
	w.Store(w.Load()&^(0xffff<<shift) | uint64(tag)<<shift)
}
