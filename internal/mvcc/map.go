package mvcc

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// Map maps object keys to values, in every revision that a reader may see.
//
// A key that some revision sees has an id, a small integer that does not change while the key
// has a version. The ids of removed keys are reused for others.
//
// Methods are for readers unless they say "for the writer". Unless a method says otherwise, a
// reader must have pinned the revision it passes; the writer may pass any that is pinned, and
// the current one.
type Map struct {
	history retirer
	seed    maphash.Seed
	spaces  *namespaces
	table   atomic.Pointer[table]
	dir     atomic.Pointer[[]*block] // records by id
	last    atomic.Uint64            // the newest stamp; set before a value with it

	// Writer only:
	ids   ids
	freed [][]uint32 // by block: ids that can be reused once the block was copied
	width int        // words of notes for each id
	blank *block     // shared by all positions of dir without an id in use
	spare []version
}

// Ref is a key as the writer found it: its id, if it has one. It is valid until the map is
// written to. The zero Ref is a key without an id.
type Ref struct {
	ID    uint32
	known bool
	hash  uint64 // set by Lookup if the key is not known
}

// RefTo returns the ref of an id that is in use.
func RefTo(id uint32) Ref { return Ref{ID: id, known: true} }

// Known reports whether the key has a version. That may be its deletion.
func (r Ref) Known() bool { return r.known }

// NewMap returns an empty map whose revisions h publishes. It keeps copies of its keys.
func NewMap[P any](h *History[P]) *Map {
	seed := maphash.MakeSeed()
	m := &Map{history: h, seed: seed, spaces: newNamespaces(seed)}
	m.table.Store(newTable(0))
	m.dir.Store(new([]*block))
	return m
}

// hash returns the hash of a key. The factor makes a difference between a/b and b/a.
func (m *Map) hash(k object.Key) uint64 {
	return maphash.String(m.seed, k.Namespace)*0x9e3779b97f4a7c15 + maphash.String(m.seed, k.Name)
}

// seek returns the block of k and the index of its record there; no block if k has no record.
func (m *Map) seek(k object.Key) (*block, uint32) {
	// A reader loads dir first: ids that are newer than dir are not in its revision.
	dir, t := *m.dir.Load(), m.table.Load()
	hash := m.hash(k)
	tag := tagOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			if b, i, ok := locate(dir, g.ids[slotOf(f)].Load()); ok && b.is(i, k, m.spaces) {
				return b, i
			}
		}
		if g.empty() {
			return nil, 0
		}
	}
}

// locate returns where the record of an id is; ok is false for an id that is newer than dir.
func locate(dir []*block, id uint32) (b *block, i uint32, ok bool) {
	if int(id>>blockBits) >= len(dir) {
		return nil, 0, false
	}
	b, i = dir[id>>blockBits], id&(blockSize-1)
	return b, i, int(i) < len(b.records)
}

// Find returns the value that a revision sees of a key, nil if none.
//
// The revision need not be pinned. If it is not, the answer is certain only if sure is true.
// Otherwise the reader checks that the revision is still the current one, and if not, searches
// again at the current one.
func (m *Map) Find(k object.Key, revision uint64) (v Value, sure bool) {
	b, i := m.seek(k)
	if b == nil {
		return nil, false
	}
	return b.records[i].look(revision)
}

// FindNote is [Map.Find] that also returns the first three notes of the value. They are zero
// unless sure is true. The notes are of that value if the writer stores them after [Map.Put] and
// before [History.Publish]: Put sets the stamp, which is compared before and after they are loaded.
func (m *Map) FindNote(k object.Key, revision uint64) (v Value, note [3]uint64, sure bool) {
	b, i := m.seek(k)
	if b == nil {
		return nil, note, false
	}
	r := &b.records[i]
	stamp := r.stamp.Load()
	n := b.notes[int(i)*(len(b.notes)/len(b.records)):]
	note = [3]uint64{atomic.LoadUint64(&n[0]), atomic.LoadUint64(&n[1]), atomic.LoadUint64(&n[2])}
	v, sure = r.look(revision)
	if !sure || r.stamp.Load() != stamp {
		return v, [3]uint64{}, sure
	}
	return v, note, true
}

// At returns the value that a revision sees of an id, nil if none.
func (m *Map) At(id uint32, revision uint64) Value {
	b, i, ok := locate(*m.dir.Load(), id)
	if !ok {
		return nil
	}
	return b.records[i].at(revision)
}

// Key returns the key of an id that the reader's revision, or the writer, sees. Its strings keep
// a block of records alive: copy them to keep them.
func (m *Map) Key(id uint32) object.Key {
	return (*m.dir.Load())[id>>blockBits].keyOf(id&(blockSize-1), m.spaces)
}

// Gather puts the values that a revision sees of some ids into out, and returns their number.
// Its loops only load, so that the processor waits for many cache lines at a time.
func (m *Map) Gather(ids []uint32, revision uint64, out []Value) int {
	dir := *m.dir.Load()
	n := 0
	for _, id := range ids {
		if v := loadValue(&dir[id>>blockBits].values[id&(blockSize-1)]); v != nil {
			out[n] = v
			n++
		}
	}
	if m.last.Load()>>1 <= revision { // after the values: one may have been written meanwhile
		return n
	}
	n = 0
	for _, id := range ids {
		b, i := dir[id>>blockBits], id&(blockSize-1)
		v := loadValue(&b.values[i])
		if b.last[i>>spanBits].Load()>>1 > revision {
			v = b.records[i].at(revision)
		}
		if v != nil {
			out[n] = v
			n++
		}
	}
	return n
}

// Spans is the number of spans of consecutive ids; see [Map.Span].
func (m *Map) Spans() int { return len(*m.dir.Load()) << (blockBits - spanBits) }

// Span puts the values that a revision sees of a span of ids into out, without order, and returns
// their number. All spans together are all values. It is the fastest way to read them.
func (m *Map) Span(span int, revision uint64, out *[SpanSize]Value) int {
	b := (*m.dir.Load())[span>>(blockBits-spanBits)]
	span &= 1<<(blockBits-spanBits) - 1
	from := span << spanBits
	if from >= len(b.values) {
		return 0
	}
	to := min(from+SpanSize, len(b.values))
	n := 0
	for i := from; i < to; i++ {
		if v := loadValue(&b.values[i]); v != nil {
			out[n] = v
			n++
		}
	}
	if b.last[span].Load()>>1 <= revision { // after the values: one may have been written meanwhile
		return n
	}
	n = 0
	for i := from; i < to; i++ {
		if v := b.records[i].at(revision); v != nil {
			out[n] = v
			n++
		}
	}
	return n
}

// SpanChanged reports whether a span may have another content at the reader's revision, which is
// pinned, than at an earlier one, which need not be.
func (m *Map) SpanChanged(span int, since uint64) bool {
	b := (*m.dir.Load())[span>>(blockBits-spanBits)]
	span &= 1<<(blockBits-spanBits) - 1
	if span >= len(b.last) {
		return true
	}
	last := b.last[span].Load()
	return last == 0 || last>>1 > since // 0: nothing was ever written here, or all of it was removed
}

// IDs calls yield with every id that a revision sees, and its value, without order, until yield
// returns false.
func (m *Map) IDs(revision uint64, yield func(id uint32, v Value) bool) {
	for c, b := range *m.dir.Load() {
		for i := range b.records {
			if v := b.records[i].at(revision); v != nil && !yield(uint32(c<<blockBits+i), v) {
				return
			}
		}
	}
}

// Namespace calls yield with every id of a namespace that some revision sees, without order,
// until yield returns false. The reader asks [Map.At] or [Map.Gather] which of them its own
// revision sees.
func (m *Map) Namespace(name string, yield func(id uint32) bool) {
	if n := m.spaces.find(name, maphash.String(m.seed, name)); n != nil {
		array := n.ids.load()
		for i := range array {
			if c := array[i].Load(); c != 0 && !yield(c-1) {
				return
			}
		}
	}
	// dir first, as in seek: the key of an id that is reused meanwhile is written to another block.
	dir, overflow := *m.dir.Load(), m.spaces.overflow.ids.load()
	for i := range overflow {
		c := overflow[i].Load()
		if c == 0 {
			continue
		}
		if b, at, ok := locate(dir, c-1); ok && b.records[at].size == elsewhere {
			if key := (*b.long.Load())[at]; key != nil && key.Namespace == name && !yield(c-1) {
				return
			}
		}
	}
}

// Since calls yield with every id whose newest version is after a revision, without order, until
// yield returns false.
func (m *Map) Since(revision uint64, yield func(id uint32) bool) {
	for c, b := range *m.dir.Load() {
		for span := range b.last {
			if b.last[span].Load()>>1 <= revision {
				continue
			}
			from := span << spanBits
			for i := from; i < min(from+SpanSize, len(b.records)); i++ {
				if b.records[i].stamp.Load()>>1 > revision && !yield(uint32(c<<blockBits+i)) {
					return
				}
			}
		}
	}
}

// Sort returns the ids that a revision sees, in the order of their keys. It takes O(n log n); see
// [State.Sorted].
func (m *Map) Sort(revision uint64) []uint32 {
	type named struct {
		key object.Key
		id  uint32
	}
	var all []named
	m.IDs(revision, func(id uint32, _ Value) bool {
		all = append(all, named{m.Key(id), id})
		return true
	})
	slices.SortFunc(all, func(a, b named) int { return a.key.Compare(b.key) })
	sorted := make([]uint32, len(all))
	for i := range all {
		sorted[i] = all[i].id
	}
	return sorted
}
