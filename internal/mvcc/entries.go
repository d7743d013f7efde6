package mvcc

import (
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// table is the hash table of a [Map].
type table struct {
	slots
	entries []entry
	seed    maphash.Seed
	spaces  *spaces
	long    *arena          // keys that do not fit their entries
	byID    []atomic.Uint32 // from an id to its entry, counted from 1
}

// entry is just one cache line: all that a lookup has to touch for a key of usual length.
// Its key is not changed once it is filled. Stamp and direct follow the newest version;
// while they do, the stamp is stampBusy, so that nobody takes one for the other's.
type entry struct {
	stamp  atomic.Uint64  // of the newest version
	direct unsafe.Pointer // its value, if that is a pointer
	id     uint32
	space  uint32 // the number of the namespace
	// The length of the name, and its text; or elsewhere, and the place of the whole key
	// in the table's long ones.
	name uint8
	text [39]byte
}

const elsewhere = 255

// newTable returns a table for that many keys and for ids below limit.
func newTable(seed maphash.Seed, keys int, limit uint32) *table {
	t := &table{slots: newSlots(keys), seed: seed, spaces: newSpaces(seed), long: newArena()}
	t.entries = make([]entry, t.size())
	t.byID = make([]atomic.Uint32, max(t.size(), int(limit)+int(limit)/8+1))
	return t
}

// grown returns a copy with room for n more keys and for ids below limit.
func (t *table) grown(n int, limit uint32) *table {
	c := newTable(t.seed, t.keys+n, limit)
	for i := range t.each {
		from := &t.entries[i]
		at, h := c.fill(t.keyOf(from), from.id)
		to := &c.entries[at]
		to.direct = from.direct
		to.stamp.Store(from.stamp.Load())
		c.use(at, h)
	}
	return c
}

// hash returns the hash of a name in a namespace.
func (t *table) hash(s *space, name string) uint32 {
	// The factor tells namespace and name apart, should they be swapped.
	return fold(s.hash*0x9e3779b97f4a7c15 + maphash.String(t.seed, name))
}

// lookup returns the entry of k, nil if there is none.
func (t *table) lookup(k object.Key) *entry {
	in := t.spaces.find(k.Namespace)
	if in == nil {
		return nil
	}
	h := t.hash(in, k.Name)
	tag := tagOf(h)
	for g := t.home(h); ; g = t.after(g) {
		word := t.tags[g].Load()
		for m := matching(word, tag); m != 0; m &= m - 1 {
			if e := &t.entries[slotIn(g, m)]; e.space == in.number && t.is(e, k) {
				return e
			}
		}
		if matching(word, tagEmpty) != 0 {
			return nil
		}
	}
}

// is reports whether an entry in the namespace of k is that of k.
func (t *table) is(e *entry, k object.Key) bool {
	if len(k.Name) > len(e.text) {
		return e.name == elsewhere && t.long.get(e.place()) == k
	}
	return int(e.name) == len(k.Name) && string(e.text[:len(k.Name)]) == k.Name
}

// place returns where the key is that does not fit.
func (e *entry) place() uint32 {
	return uint32(e.text[0]) | uint32(e.text[1])<<8 | uint32(e.text[2])<<16 | uint32(e.text[3])<<24
}

// keyOf returns the key of an entry, as a view that keeps the whole table alive.
func (t *table) keyOf(e *entry) object.Key {
	if e.name == elsewhere {
		return t.long.get(e.place())
	}
	return object.Key{Namespace: t.spaces.at(e.space).name, Name: view(e.text[:e.name])}
}

// of returns the entry of an id that is in the table.
func (t *table) of(id uint32) *entry { return &t.entries[t.byID[id].Load()-1] }

// key returns the key of an id. For one that is not in the table, which a reader may have
// from a place that is out of date, it is some key.
func (t *table) key(id uint32) (k object.Key) {
	if int(id) < len(t.byID) {
		if i := t.byID[id].Load(); i > 0 {
			return t.keyOf(&t.entries[i-1])
		}
	}
	return k
}

// fill writes a key that is not in the table into a vacant entry, and returns its index
// and the key's hash, for use.
func (t *table) fill(k object.Key, id uint32) (uint64, uint32) {
	in := t.spaces.intern(k.Namespace)
	h := t.hash(in, k.Name)
	i := t.vacant(h)
	e := &t.entries[i]
	e.id, e.space = id, in.number
	if len(k.Name) <= len(e.text) {
		e.name = uint8(copy(e.text[:], k.Name))
	} else {
		at := t.long.put(k)
		e.name = elsewhere
		e.text[0], e.text[1], e.text[2], e.text[3] = uint8(at), uint8(at>>8), uint8(at>>16), uint8(at>>24)
	}
	t.byID[id].Store(uint32(i) + 1)
	return i, h
}
