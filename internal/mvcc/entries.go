package mvcc

import (
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// table is the hash table of a [Map].
type table struct {
	slots
	entries []entry
	names   *arena          // of the keys that do not fit their entries
	byID    []atomic.Uint32 // from an id to its entry, counted from 1
}

// entry is just one cache line: all that a lookup has to touch for a key of usual length.
// Its key is not changed once it is filled. Stamp and direct follow the newest version;
// while they do, the stamp is stampBusy, so that nobody takes one for the other's.
type entry struct {
	stamp  atomic.Uint64  // of the newest version
	direct unsafe.Pointer // its value, if that is a pointer
	id     uint32
	// The lengths of namespace and name, and both texts; or elsewhere, and the place in
	// the table's names.
	namespace, name uint8
	text            [42]byte
}

const elsewhere = 255

// newTable returns a table for that many keys and for ids below limit.
func newTable(names *arena, keys int, limit uint32) *table {
	t := &table{slots: newSlots(keys), names: names}
	t.entries = make([]entry, t.size())
	t.byID = make([]atomic.Uint32, max(t.size(), int(limit)+int(limit)/8+1))
	return t
}

// grown returns a copy with room for n more keys and for ids below limit.
func (t *table) grown(n int, limit uint32) *table {
	c := newTable(newArena(t.names.seed), t.keys+n, limit)
	for i := range t.each {
		from := &t.entries[i]
		at := c.fill(t.hashes[i], t.keyOf(from), from.id)
		to := &c.entries[at]
		to.direct = from.direct
		to.stamp.Store(from.stamp.Load())
		c.use(at, t.hashes[i])
	}
	return c
}

// lookup returns the entry of k, nil if there is none.
func (t *table) lookup(k object.Key) *entry {
	h := t.names.hash(k)
	tag := tagOf(h)
	for g := t.home(h); ; g = t.after(g) {
		word := t.tags[g].Load()
		for m := matching(word, tag); m != 0; m &= m - 1 {
			if e := &t.entries[in(g, m)]; t.is(e, k) {
				return e
			}
		}
		if matching(word, tagEmpty) != 0 {
			return nil
		}
	}
}

func (t *table) is(e *entry, k object.Key) bool {
	ns, n := len(k.Namespace), len(k.Name)
	if ns+n > len(e.text) {
		return e.namespace == elsewhere && t.names.get(e.place()) == k
	}
	return int(e.namespace) == ns && int(e.name) == n &&
		string(e.text[ns:ns+n]) == k.Name && string(e.text[:ns]) == k.Namespace
}

// place returns where the key is that does not fit.
func (e *entry) place() uint32 {
	return uint32(e.text[0]) | uint32(e.text[1])<<8 | uint32(e.text[2])<<16 | uint32(e.text[3])<<24
}

// keyOf returns the key of an entry, as a view that keeps the whole table alive.
func (t *table) keyOf(e *entry) object.Key {
	if e.namespace == elsewhere {
		return t.names.get(e.place())
	}
	ns, n := int(e.namespace), int(e.name)
	return object.Key{Namespace: view(e.text[:ns]), Name: view(e.text[ns : ns+n])}
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

// fill writes a key that is not in the table into a vacant entry, and returns its index.
func (t *table) fill(h uint32, k object.Key, id uint32) uint64 {
	i := t.vacant(h)
	e := &t.entries[i]
	e.id = id
	if ns, n := len(k.Namespace), len(k.Name); ns+n <= len(e.text) {
		e.namespace, e.name = uint8(ns), uint8(n)
		copy(e.text[:], k.Namespace)
		copy(e.text[ns:], k.Name)
	} else {
		at := t.names.put(k)
		e.namespace = elsewhere
		e.text[0], e.text[1], e.text[2], e.text[3] = uint8(at), uint8(at>>8), uint8(at>>16), uint8(at>>24)
	}
	t.byID[id].Store(uint32(i) + 1)
	return i
}
