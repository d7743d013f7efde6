package mvcc

import (
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// Map is a hash map from object keys to values, which are pointers, in all revisions that
// somebody can see.
//
// Every key that some revision can see has an id, a small integer that stays the same
// for as long as the key has a version. Ids of keys that are gone are given to new keys.
type Map struct {
	history retirer
	table   atomic.Pointer[groups]
	dir     atomic.Pointer[[]*block] // records by id
	removed func(uint32, object.Key)
	shifts  atomic.Uint64
	last    atomic.Uint64 // the newest stamp, set before a value with it is

	// Of the writer:
	ids   ids
	freed [][]uint32 // by block: ids that are free once the block has been copied
	width int        // words of notes for each id
	blank *block     // stands for blocks in which no id is in use
	spare []version
}

// Ref is a key as the writer found it: its id and its newest version, published or not,
// dead or not. The zero Ref stands for a key that has none. It is good until the map is
// written to.
type Ref struct {
	ID    uint32
	known bool
	hash  uint64 // of a key that was looked up
}

// RefTo returns the ref of an id that is in use.
func RefTo(id uint32) Ref { return Ref{ID: id, known: true} }

// Known reports whether the key has a version, if only that of its deletion.
func (r Ref) Known() bool { return r.known }

// NewMap returns an empty map of object keys whose revisions h publishes. It keeps copies
// of the keys. removed is told when an id and its key leave the map.
// It may be nil.
func NewMap[P any](h *History[P], removed func(uint32, object.Key)) *Map {
	m := &Map{history: h, removed: removed}
	seed := maphash.MakeSeed()
	m.table.Store(newGroups(seed, newSpaces(seed), 0))
	m.dir.Store(new([]*block))
	return m
}

// seek returns the block of k in dir and the index of its record there, no block if it has
// none. A reader loads dir before: what the table has that is newer is not for him.
func (m *Map) seek(dir []*block, k object.Key) (*block, uint32) {
	t := m.table.Load()
	space, hash := t.spaces.find(k.Namespace)
	hash = t.hash(hash, k.Name)
	tag := laneOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.list[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			id := g.ids[slotOf(f)].Load()
			if b, i, ok := locate(dir, id); ok && b.is(i, space, k) {
				return b, i
			}
		}
		if g.empty() {
			return nil, 0
		}
	}
}

// locate returns where the record of an id is; ok is false for one that is newer than dir.
func locate(dir []*block, id uint32) (b *block, i uint32, ok bool) {
	if int(id>>blockBits) >= len(dir) {
		return nil, 0, false
	}
	b, i = dir[id>>blockBits], id&(blockSize-1)
	return b, i, int(i) < len(b.records)
}

// Find returns the value of k that revision sees, nil if none.
//
// A reader that has pinned the revision, and the writer, can rely on the answer. For
// any other reader it is certain when sure is true; when it is false the reader must
// check that the revision is still the current one, and look again if not.
func (m *Map) Find(k object.Key, revision uint64) (p unsafe.Pointer, sure bool) {
	b, i := m.seek(*m.dir.Load(), k)
	if b == nil {
		return nil, false
	}
	r := &b.records[i]
	stamp := r.stamp.Load()
	if p := atomic.LoadPointer(&r.value); stamp>>1 <= revision && r.stamp.Load() == stamp {
		return p, true
	}
	return r.at(revision), false
}

// FindNote is [Map.Find] that fills in the first notes of what it found. It leaves them
// zero when it is not sure.
func (m *Map) FindNote(k object.Key, revision uint64, note *[3]uint64) (p unsafe.Pointer, sure bool) {
	b, i := m.seek(*m.dir.Load(), k)
	if b == nil {
		return nil, false
	}
	r := &b.records[i]
	width := len(b.notes) / len(b.records)
	stamp := r.stamp.Load()
	p = atomic.LoadPointer(&r.value)
	found := b.note(i, width)
	if stamp>>1 <= revision && r.stamp.Load() == stamp {
		*note = found
		return p, true
	}
	return r.at(revision), false
}

// note returns the first notes of the record at i.
func (b *block) note(i uint32, width int) [3]uint64 {
	n := b.notes[int(i)*width:]
	return [3]uint64{n[0].Load(), n[1].Load(), n[2].Load()}
}

// record returns the record of an id that is in use, for the writer.
func (m *Map) record(id uint32) *record {
	return &(*m.dir.Load())[id>>blockBits].records[id&(blockSize-1)]
}

// Ahead is how many keys are worth looking up together.
const Ahead = 16

// LookupAll is [Map.Lookup] for up to [Ahead] keys. It goes through them three times, so that
// the processor waits for all their cache lines at once: those of the table, then those of the
// records, which depend on the former.
func (m *Map) LookupAll(keys []object.Key, refs []Ref) {
	t, dir := m.table.Load(), *m.dir.Load()
	var spaces [Ahead]uint16
	var hashes [Ahead]uint64
	for i, k := range keys {
		space, hash := t.spaces.find(k.Namespace)
		spaces[i], hashes[i] = space, t.hash(hash, k.Name)
		t.list[t.home(hashes[i])].tags[0].Load()
	}
	for i := range keys {
		g := &t.list[t.home(hashes[i])]
		if f := g.matches(laneOf(hashes[i])); f != 0 {
			if b, i, ok := locate(dir, g.ids[slotOf(f)].Load()); ok {
				b.records[i].stamp.Load()
				b.touch(i, m.width)
			}
		}
	}
	for i, k := range keys {
		refs[i] = m.lookup(t, dir, k, spaces[i], hashes[i])
	}
}

// Lookup returns k as it is in the revision in preparation, for the writer.
func (m *Map) Lookup(k object.Key) Ref {
	t := m.table.Load()
	space, hash := t.spaces.find(k.Namespace)
	return m.lookup(t, *m.dir.Load(), k, space, t.hash(hash, k.Name))
}

func (m *Map) lookup(t *groups, dir []*block, k object.Key, space uint16, hash uint64) Ref {
	tag := laneOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.list[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			id := g.ids[slotOf(f)].Load()
			if b, i := dir[id>>blockBits], id&(blockSize-1); b.is(i, space, k) {
				b.touch(i, m.width)
				return Ref{ID: id, known: true}
			}
		}
		if g.empty() {
			return Ref{hash: hash}
		}
	}
}

// Glance has the processor fetch the key and the first notes of an id, for the writer.
func (m *Map) Glance(id uint32) {
	b, i := (*m.dir.Load())[id>>blockBits], id&(blockSize-1)
	b.records[i].stamp.Load()
	if m.width > 0 {
		b.notes[int(i)*m.width].Load()
	}
}

// Is reports whether an id that is in use stands for k, for the writer.
func (m *Map) Is(id uint32, k object.Key) bool {
	return (*m.dir.Load())[id>>blockBits].keyOf(id&(blockSize-1), m.table.Load().spaces) == k
}

// Live returns the newest value, nil if there is none or it was deleted, for the writer.
func (m *Map) Live(r Ref) unsafe.Pointer {
	if !r.known {
		return nil
	}
	return m.record(r.ID).value
}

// Newborn reports whether the key came to be in the revision in preparation, for the writer.
func (m *Map) Newborn(r Ref) bool {
	rec := m.record(r.ID)
	return rec.stamp.Load()>>1 == m.history.Next() && rec.older.Load() == nil
}

// Note returns the notes of an id that is in use, for the writer.
func (m *Map) Note(id uint32) []atomic.Uint64 {
	at := int(id&(blockSize-1)) * m.width
	return (*m.dir.Load())[id>>blockBits].notes[at : at+m.width]
}

// Key returns the key of an id that the reader's revision, or the writer, sees. It is a
// view that keeps much more alive than the key: whoever keeps it makes a copy.
func (m *Map) Key(id uint32) object.Key {
	return (*m.dir.Load())[id>>blockBits].keyOf(id&(blockSize-1), m.table.Load().spaces)
}

// View returns the keys of all ids as they are now, for [Map.KeyIn].
func (m *Map) View() any { return m.dir.Load() }

// KeyIn is [Map.Key] for a reader who does not know whether his revision sees the id. It
// returns the key that the id had in a view from before he met it; ok is false if it had
// none yet.
func (m *Map) KeyIn(view any, id uint32) (k object.Key, ok bool) {
	b, i, ok := locate(*view.(*[]*block), id)
	if !ok {
		return k, false
	}
	return b.keyOf(i, m.table.Load().spaces), true
}

// At returns the value that revision, which must be pinned, sees of an id; nil if none.
func (m *Map) At(id uint32, revision uint64) unsafe.Pointer {
	b, i, ok := locate(*m.dir.Load(), id)
	if !ok {
		return nil
	}
	return b.records[i].at(revision)
}

// Gather puts the values that revision, which must be pinned, sees of some ids into out and
// returns how many there are. Nothing but loads stands between one and the next, so that the
// processor waits for many at a time; and it only looks at the records of spans that were
// written to since the revision.
func (m *Map) Gather(ids []uint32, revision uint64, out []unsafe.Pointer) int {
	dir := *m.dir.Load()
	n := 0
	for _, id := range ids {
		if p := atomic.LoadPointer(&dir[id>>blockBits].values[id&(blockSize-1)]); p != nil {
			out[n] = p
			n++
		}
	}
	if m.last.Load()>>1 <= revision { // in this order: it may have become so just now
		return n
	}
	n = 0
	for _, id := range ids {
		b, i := dir[id>>blockBits], id&(blockSize-1)
		p := atomic.LoadPointer(&b.values[i])
		if b.last[i>>spanBits].Load()>>1 > revision {
			p = b.records[i].at(revision)
		}
		if p != nil {
			out[n] = p
			n++
		}
	}
	return n
}

// All calls yield for every value that revision, which must be pinned or the writer's, sees, in
// no particular order, until it returns false.
func (m *Map) All(revision uint64, yield func(unsafe.Pointer) bool) {
	for _, b := range *m.dir.Load() {
		for i := range b.records {
			if p := b.records[i].at(revision); p != nil && !yield(p) {
				return
			}
		}
	}
}

// Limit returns a number above every id in use, for the writer.
func (m *Map) Limit() uint32 { return m.ids.next }

// Len returns the number of keys, dead ones included, for the writer.
func (m *Map) Len() int { return m.table.Load().keys }

// Since calls yield for every id whose newest version is after a revision, until it returns
// false.
func (m *Map) Since(revision uint64, yield func(id uint32) bool) {
	for c, b := range *m.dir.Load() {
		for span := range b.last {
			if b.last[span].Load()>>1 <= revision {
				continue
			}
			from := span << spanBits
			for i := from; i < min(from+1<<spanBits, len(b.records)); i++ {
				if b.records[i].stamp.Load()>>1 > revision && !yield(uint32(c<<blockBits+i)) {
					return
				}
			}
		}
	}
}

// Lives calls yield for every id that lives in the revision in preparation, with its value,
// until it returns false. It is for the writer.
func (m *Map) Lives(yield func(id uint32, p unsafe.Pointer) bool) {
	for c, b := range *m.dir.Load() {
		for i, p := range b.values {
			if p != nil && !yield(uint32(c<<blockBits+i), p) {
				return
			}
		}
	}
}
