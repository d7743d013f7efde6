package mvcc

import (
	"math/bits"
	"sync/atomic"
)

// table is an open-addressing hash table: groups of eight slots, with one byte of the
// hash for each slot packed into a word, so that a lookup compares eight at once and
// touches a slot only where the byte agrees. It is made to be small: all that lookups
// touch should stay in the processor's caches.
//
// One writer and any number of readers. A slot's key and id are written once, before its
// byte, and never again, since a reader may be looking: a slot whose key is gone is not
// used again. When slots run out there is another table. Readers of the old one still
// find what was there when they loaded it.
type table[K comparable, P any] struct {
	groups uint64
	tags   []atomic.Uint64
	slots  []slot[P]
	names  keeper[K]
	byID   []atomic.Uint32 // from an id to its slot, counted from 1

	// Of the writer:
	hashes []uint32 // of the slots' keys
	keys   int      // slots in use
	gone   int      // slots whose key is gone
}

type slot[P any] struct {
	ref atomic.Pointer[P]
	key uint32 // by which the names keep it
	id  uint32
}

const (
	groupSize = 8
	tagEmpty  = 0x00
	tagGone   = 0x01
	tagUsed   = 0x80 // plus seven bits of the hash

	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// newTable returns a table for that many keys, with some room to grow, and for ids below
// limit.
func newTable[K comparable, P any](names keeper[K], keys int, limit uint32) *table[K, P] {
	groups := keys*3/2/groupSize + 1
	return &table[K, P]{
		groups: uint64(groups),
		tags:   make([]atomic.Uint64, groups),
		slots:  make([]slot[P], groups*groupSize),
		names:  names,
		byID:   make([]atomic.Uint32, max(groups*groupSize, int(limit)+int(limit)/8+1)),
		hashes: make([]uint32, groups*groupSize),
	}
}

// full reports whether n more keys need another table. One slot in eight stays empty, or
// probes for what is not there would not end.
func (t *table[K, P]) full(n int, x *ids) bool {
	return (t.keys+t.gone+n)*8 > len(t.slots)*7 || int(x.next) > len(t.byID)
}

// sparse reports whether the table is much too large for its keys.
func (t *table[K, P]) sparse() bool { return len(t.slots) > 1024 && t.keys*8 < len(t.slots) }

// grown returns a copy with room for n more keys.
func (t *table[K, P]) grown(n int, x *ids) *table[K, P] {
	c := newTable[K, P](t.names.fresh(), t.keys+n, x.next)
	for s := range t.each {
		c.insert(t.hashes[t.byID[s.id].Load()-1], t.names.get(s.key), s.id, s.ref.Load())
	}
	return c
}

// matching returns the high bit of every byte of word that equals tag. Above a byte that
// does it may also return one that does not; the key tells.
func matching(word uint64, tag uint8) uint64 {
	x := word ^ lows*uint64(tag)
	return (x - lows) &^ x & highs
}

func tagOf(h uint32) uint8 { return tagUsed | uint8(h)&0x7f }

// home returns the group where probing begins. It takes the upper bits of the hash, the
// tag the lower ones.
func (t *table[K, P]) home(h uint32) uint64 { return uint64(h) * t.groups >> 32 }

func (t *table[K, P]) after(g uint64) uint64 {
	if g++; g == t.groups {
		return 0
	}
	return g
}

// lookup returns the slot of k, nil if there is none.
func (t *table[K, P]) lookup(k K) *slot[P] {
	h := t.names.hash(k)
	tag := tagOf(h)
	for g := t.home(h); ; g = t.after(g) {
		word := t.tags[g].Load()
		for m := matching(word, tag); m != 0; m &= m - 1 {
			s := &t.slots[g*groupSize+uint64(bits.TrailingZeros64(m))/8]
			if t.names.is(s.key, k) {
				return s
			}
		}
		if matching(word, tagEmpty) != 0 {
			return nil
		}
	}
}

// of returns the slot of an id that is in the table.
func (t *table[K, P]) of(id uint32) *slot[P] { return &t.slots[t.byID[id].Load()-1] }

// key returns the key of an id. For one that is not in the table, which a reader may have
// from a place that is out of date, it is some key.
func (t *table[K, P]) key(id uint32) (k K) {
	if int(id) < len(t.byID) {
		if i := t.byID[id].Load(); i > 0 {
			return t.names.get(t.slots[i-1].key)
		}
	}
	return k
}

// insert puts in a key that is not in the table.
func (t *table[K, P]) insert(h uint32, k K, id uint32, ref *P) {
	for g := t.home(h); ; g = t.after(g) {
		word := t.tags[g].Load()
		empty := matching(word, tagEmpty)
		if empty == 0 {
			continue
		}
		// The lowest match is always a true one.
		at := bits.TrailingZeros64(empty) / 8
		i := g*groupSize + uint64(at)
		s := &t.slots[i]
		s.key, s.id = t.names.put(k), id
		s.ref.Store(ref)
		t.hashes[i] = h
		t.byID[id].Store(uint32(i) + 1)
		t.tags[g].Store(word | uint64(tagOf(h))<<(at*8))
		t.keys++
		return
	}
}

// remove takes out the key of an id. Its slot keeps key and reference for readers that are
// there already.
func (t *table[K, P]) remove(id uint32) {
	i := t.byID[id].Load() - 1
	g, shift := i/groupSize, i%groupSize*8
	t.tags[g].Store(t.tags[g].Load()&^(0xff<<shift) | tagGone<<shift)
	t.keys--
	t.gone++
}

// each calls yield for every slot in use, until it returns false.
func (t *table[K, P]) each(yield func(*slot[P]) bool) {
	for g := range t.tags {
		for m := t.tags[g].Load() & highs; m != 0; m &= m - 1 {
			if !yield(&t.slots[g*groupSize+bits.TrailingZeros64(m)/8]) {
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
