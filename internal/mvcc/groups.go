package mvcc

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// groups is the hash table of a [Map]: from the hash of a key to the ids that may be its.
// A lookup touches one cache line here, in a table that is small enough for the processor's
// second cache, and then the record.
//
// One writer and any number of readers. The slot of a key that some revision sees stays as
// it is; those of keys that are gone are used again. Whoever finds an id looks at the
// record's key. When slots run out there is another table.
type groups struct {
	list   []group
	seed   maphash.Seed
	spaces *spaces

	// Of the writer:
	keys int // slots in use
	gone int // slots that are free, but not empty
}

// group is one cache line: slots with sixteen bits of the hash each, packed into words so
// that a lookup compares four at once.
type group struct {
	tags [3]atomic.Uint64
	ids  [groupSlots]atomic.Uint32
}

const (
	groupSlots = 10

	laneEmpty = 0      // nothing was ever put past a group with an empty slot
	laneGone  = 1      // free
	laneNone  = 2      // the lanes of the last word that have no slot
	laneUsed  = 0x8000 // plus fifteen bits of the hash

	laneLows  = 0x0001000100010001
	laneHighs = 0x8000800080008000
	lastEmpty = laneNone<<48 | laneNone<<32
)

func newGroups(seed maphash.Seed, spaces *spaces, keys int) *groups {
	t := &groups{seed: seed, spaces: spaces, list: make([]group, keys*6/5/groupSlots+1)}
	for i := range t.list {
		t.list[i].tags[2].Store(lastEmpty)
	}
	return t
}

// full reports whether there is no room for n more keys. One slot in eight stays empty, or
// probes for what is not there would be long.
func (t *groups) full(n int) bool { return (t.keys+t.gone+n)*8 > len(t.list)*groupSlots*7 }

// sparse reports whether there are far too many slots.
func (t *groups) sparse() bool { return len(t.list) > 100 && t.keys*8 < len(t.list)*groupSlots }

// lanes returns the high bit of every lane of word that equals tag. Above a lane that does
// it may also return one that does not; the key tells.
func lanes(word uint64, tag uint16) uint64 {
	x := word ^ laneLows*uint64(tag)
	return (x - laneLows) &^ x & laneHighs
}

// matches has a bit for each slot of the group whose tag it is, for slotOf, and maybe for some
// whose tag it is not. All slots are compared without a branch: which one it is nobody can foresee, and
// a processor that has foreseen wrongly cannot begin with the lookup after this one.
func (g *group) matches(tag uint16) uint64 {
	return lanes(g.tags[0].Load(), tag)>>15 | lanes(g.tags[1].Load(), tag)>>14 | lanes(g.tags[2].Load(), tag)>>13
}

// slotOf returns the slot of the lowest bit of what matches returned.
func slotOf(found uint64) int {
	bit := bits.TrailingZeros64(found)
	return bit%16*4 + bit/16
}

func laneOf(h uint64) uint16 { return laneUsed | uint16(h) }

// home returns the group where probing begins. It takes the upper bits of the hash, the
// tag the lower ones.
func (t *groups) home(h uint64) int { return int((h >> 32) * uint64(len(t.list)) >> 32) }

// after returns the group to probe after g.
func (t *groups) after(g int) int {
	if g++; g == len(t.list) {
		return 0
	}
	return g
}

// hash returns the hash of a name in a namespace of that hash.
func (t *groups) hash(space uint64, name string) uint64 {
	// The factor tells namespace and name apart, should they be swapped.
	return space*0x9e3779b97f4a7c15 + maphash.String(t.seed, name)
}

// hashOf returns the hash of a key.
func (t *groups) hashOf(k object.Key) uint64 {
	return t.hash(maphash.String(t.seed, k.Namespace), k.Name)
}

// insert puts an id in, under a hash.
func (t *groups) insert(h uint64, id uint32) {
	t.keys++
	for at := t.home(h); ; at = t.after(at) {
		g := &t.list[at]
		for slot := range groupSlots {
			tag := g.tag(slot)
			if tag != laneEmpty && tag != laneGone {
				continue
			}
			if tag == laneGone {
				t.gone--
			}
			g.ids[slot].Store(id) // before anybody can see the tag
			g.setTag(slot, laneOf(h))
			return
		}
	}
}

// remove takes out an id that is under a hash.
func (t *groups) remove(h uint64, id uint32) {
	tag := laneOf(h)
	for at := t.home(h); ; at = t.after(at) {
		g := &t.list[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			slot := slotOf(f)
			if g.ids[slot].Load() != id || g.tag(slot) != tag {
				continue
			}
			t.keys--
			// No probe has passed a group with an empty slot, nor will one.
			if g.empty() {
				g.setTag(slot, laneEmpty)
			} else {
				g.setTag(slot, laneGone)
				t.gone++
			}
			return
		}
		if g.empty() {
			panic("mvcc: a key is missing from its table")
		}
	}
}

func (g *group) empty() bool { return g.matches(laneEmpty) != 0 }

func (g *group) tag(slot int) uint16 { return uint16(g.tags[slot/4].Load() >> (slot % 4 * 16)) }

func (g *group) setTag(slot int, tag uint16) {
	w, shift := &g.tags[slot/4], slot%4*16
	w.Store(w.Load()&^(0xffff<<shift) | uint64(tag)<<shift)
}
