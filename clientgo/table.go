package clientgo

import (
	"hash/maphash"
	"sync/atomic"
)

// table finds entries by their keys. Readers take no lock and may be many; writers take
// turns, on a lock that is not the table's.
//
// It is open addressing in a slice of pointers. What is removed leaves a mark in its slot,
// until the slice is made anew, so that nobody who is looking goes past what he looks for.
// Go's map would need a lock around reads, and sync.Map a boxed key for each of them.
type table struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]slot] // a power of two, of which a quarter or more is free
	taken int                    // slots that are not free
	live  int                    // of these, slots that have an entry
}

type slot = atomic.Pointer[entry] // nil is free

// gone is in slots whose entry was removed. It has no key that could be looked for.
var gone = &entry{hash: 0}

const fewestSlots = 8

// newTable makes a table with room for n.
func newTable(n int) *table {
	t := &table{seed: maphash.MakeSeed()}
	t.make(n)
	return t
}

// make gives the table empty slots, for n entries and some more.
func (t *table) make(n int) {
	size := fewestSlots
	for size*3 <= n*4 {
		size *= 2
	}
	slots := make([]slot, size)
	t.slots.Store(&slots)
	t.taken, t.live = 0, 0
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) | 1 }

// find returns the entry of a key, nil without one.
func (t *table) find(key string) *entry {
	hash := t.hash(key)
	slots := *t.slots.Load()
	for i := hash >> 1; ; i++ {
		e := slots[i&uint64(len(slots)-1)].Load()
		if e == nil || e.hash == hash && e.key == key {
			return e
		}
	}
}

// slotOf returns the slot of an entry that is there.
func (t *table) slotOf(e *entry) *slot {
	slots := *t.slots.Load()
	for i := e.hash >> 1; ; i++ {
		if s := &slots[i&uint64(len(slots)-1)]; s.Load() == e {
			return s
		}
	}
}

// add puts in an entry whose key is not there.
func (t *table) add(e *entry) {
	if slots := *t.slots.Load(); (t.taken+1)*4 > len(slots)*3 {
		t.rebuild(slots)
	}
	e.hash = t.hash(e.key)
	put(*t.slots.Load(), e)
	t.taken++
	t.live++
}

// put puts an entry into the first free slot from where it belongs.
func put(slots []slot, e *entry) {
	for i := e.hash >> 1; ; i++ {
		if s := &slots[i&uint64(len(slots)-1)]; s.Load() == nil {
			s.Store(e)
			return
		}
	}
}

// swap puts an entry in the place of another with the same key.
func (t *table) swap(was, is *entry) {
	is.hash = was.hash
	t.slotOf(was).Store(is)
}

// remove takes out an entry.
func (t *table) remove(e *entry) {
	t.slotOf(e).Store(gone)
	t.live--
	if slots := *t.slots.Load(); len(slots) > fewestSlots && t.live*8 < len(slots) {
		t.rebuild(slots)
	}
}

// rebuild makes the slots anew, with room for as many entries again. Readers go on in those
// that there were, and come to the new ones when they are complete.
func (t *table) rebuild(old []slot) {
	next := table{}
	next.make(t.live * 2)
	slots := *next.slots.Load()
	for i := range old {
		if e := old[i].Load(); e != nil && e != gone {
			put(slots, e)
		}
	}
	t.slots.Store(&slots)
	t.taken = t.live
}

// all visits every entry. The caller has the writers' lock.
func (t *table) all(yield func(*entry) bool) {
	slots := *t.slots.Load()
	for i := range slots {
		if e := slots[i].Load(); e != nil && e != gone && !yield(e) {
			return
		}
	}
}
