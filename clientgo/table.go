package clientgo

import (
	"hash/maphash"
	"sync/atomic"
)

// table finds objects by their keys. Readers take no lock and may be many; writers take
// turns, on a lock that is not the table's.
//
// It is open addressing, with keys and objects in the slots, so that a reader waits for
// memory twice: for the slot, and for the text of its key. A slot whose object was removed
// is not used again, until all are made anew, so that nobody who is looking goes past
// what he looks for. Go's map would need a lock around reads, and sync.Map has a boxed key
// and one more pointer on the way to each.
type table struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]slot] // a power of two, of which 3 in 16 or more are free
	taken int                    // slots that are not free
	live  int                    // of these, slots that have an object
}

// slot is an object under its key.
type slot struct {
	hash  atomic.Uint64 // 0 is free; what follows is complete once it is not
	key   string        // never written again
	obj   value         // of one type all its life
	entry *entry        // where else the object is; for writers
}

// gone is the hash of slots whose object was removed. No key has it, see table.hash.
const gone = 2

// live reports whether there is an object.
func (s *slot) live() bool { return s.hash.Load()&1 == 1 }

// load returns the object. It is for writers; readers use get.
func (s *slot) load() any { return s.obj.load() }

const fewestSlots = 8

// newTable makes a table with room for n.
func newTable(n int) *table {
	t := &table{seed: maphash.MakeSeed()}
	slots := newSlots(n)
	t.slots.Store(&slots)
	return t
}

// newSlots makes slots for n objects and some more.
func newSlots(n int) []slot {
	size := fewestSlots
	for size*13 <= n*16 {
		size *= 2
	}
	return make([]slot, size)
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) | 1 }

// get returns the object of a key.
func (t *table) get(key string) (obj any, exists bool) {
	for {
		s := t.find(key)
		if s == nil {
			return nil, false
		}
		obj := s.load()
		if s.hash.Load() != gone {
			return obj, true
		}
		// It was removed meanwhile, or is in another slot now, and this was no object.
	}
}

// find returns the slot of a key, nil without one.
func (t *table) find(key string) *slot {
	hash := t.hash(key)
	slots := *t.slots.Load()
	for i := hash >> 1; ; i++ {
		s := &slots[i&uint64(len(slots)-1)]
		switch s.hash.Load() {
		case hash:
			if s.key == key {
				return s
			}
		case 0:
			return nil
		}
	}
}

// add puts in an object whose key is not there.
func (t *table) add(key string, obj any, e *entry) {
	slots := *t.slots.Load()
	if (t.taken+1)*16 > len(slots)*13 {
		slots = t.rebuild(slots)
	}
	put(slots, t.hash(key), key, obj, e)
	t.taken++
	t.live++
}

// put fills the first free slot from where a hash belongs. The hash comes last: who sees it
// finds the rest.
func put(slots []slot, hash uint64, key string, obj any, e *entry) {
	i := hash >> 1
	for slots[i&uint64(len(slots)-1)].hash.Load() != 0 {
		i++
	}
	s := &slots[i&uint64(len(slots)-1)]
	s.key, s.entry = key, e
	s.obj.init(obj)
	s.hash.Store(hash)
	if e != nil {
		e.slot = s
	}
}

// set puts an object in the place of another. If it is of another type, it gets another
// slot, beside the first, so that at no moment there is none.
func (t *table) set(s *slot, obj any) {
	if s.obj.store(obj) {
		return
	}
	t.add(s.key, obj, s.entry)
	t.clear(t.find(s.key)) // which comes before what was added, and may be another than s by now
}

// remove takes out the object of a slot.
func (t *table) remove(s *slot) {
	t.clear(s)
	if slots := *t.slots.Load(); len(slots) > fewestSlots && t.live*8 < len(slots) {
		t.rebuild(slots)
	}
}

// clear has a slot be gone. It keeps nothing alive but its key.
func (t *table) clear(s *slot) {
	s.hash.Store(gone) // first: whoever reads what follows looks here again
	s.obj.clear()
	s.entry = nil
	t.live--
}

// rebuild makes the slots anew, with room for half as many objects again. Readers go on in those
// that there were, and come to the new ones when they are complete.
func (t *table) rebuild(old []slot) []slot {
	slots := newSlots(t.live * 3 / 2)
	for i := range old {
		if s := &old[i]; s.live() {
			put(slots, s.hash.Load(), s.key, s.load(), s.entry)
		}
	}
	t.slots.Store(&slots)
	t.taken = t.live
	return slots
}

// keys visits every key. The caller has the writers' lock.
func (t *table) keys(yield func(string) bool) {
	slots := *t.slots.Load()
	for i := range slots {
		if s := &slots[i]; s.live() && !yield(s.key) {
			return
		}
	}
}
