package mvcc

import (
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// Map is a hash map from object keys to chains of versions of V.
//
// Every key that some revision can see has an id, a small integer that stays the same
// for as long as the key has a version, and a chain of versions, newest first. Ids of
// keys that are gone are given to new keys.
type Map[V any] struct {
	history retirer
	table   atomic.Pointer[table]
	dir     atomic.Pointer[[]*chunk[V]] // newest versions by id
	direct  func(V) unsafe.Pointer
	removed func(object.Key)
	shifts  atomic.Uint64

	ids ids // of the writer
}

// Version is what one key had from one revision on.
type Version[V any] struct {
	stamp uint64 // revision<<1, plus 1 where the key was deleted
	older atomic.Pointer[Version[V]]
	// Value is read-only once the revision is published.
	Value V
}

// Loose returns a version that is in no chain.
func Loose[V any](value V) *Version[V] { return &Version[V]{Value: value} }

// Revision returns the revision that wrote the version.
func (v *Version[V]) Revision() uint64 { return v.stamp >> 1 }

// Dead reports whether the version says that the key was deleted.
func (v *Version[V]) Dead() bool { return v.stamp&1 != 0 }

// First reports whether there is no older version that somebody may see.
func (v *Version[V]) First() bool { return v.older.Load() == nil }

// At returns what revision sees in the chain from v down, nil if nothing. v must be the
// newest version of its key, and the revision pinned.
func (v *Version[V]) At(revision uint64) *Version[V] {
	for ; v != nil; v = v.older.Load() {
		if v.stamp>>1 <= revision {
			if v.Dead() {
				return nil
			}
			return v
		}
	}
	return nil
}

const chunkSize = 256

// chunk has the newest versions of some ids, side by side, for whoever visits many; and their
// values, where these are pointers, for whoever need not look at the versions: no value here is
// newer than last, which is set before a value is.
type chunk[V any] struct {
	last   atomic.Uint64 // the newest stamp in the chunk
	direct *[chunkSize]unsafe.Pointer
	heads  [chunkSize]atomic.Pointer[Version[V]]
}

// Ref is a key as the writer found it: its id and its newest version, published or not,
// dead or not. The zero Ref stands for a key that has none. It is good until the map is
// written to.
type Ref[V any] struct {
	ID    uint32
	dead  bool // as the version says, without a look at it
	Head  *Version[V]
	entry *entry // nil if it was not looked up
}

// Live returns the newest version, nil if there is none or it is dead.
func (r Ref[V]) Live() *Version[V] {
	if r.dead {
		return nil
	}
	return r.Head
}

// NewMap returns an empty map of object keys whose revisions h publishes. It keeps copies
// of the keys. direct returns the pointer that all of a value is, nil if it is not one,
// for [Map.Direct]. removed is told when a key leaves the map. Both may be nil.
func NewMap[V, P any](h *History[P], direct func(V) unsafe.Pointer, removed func(object.Key)) *Map[V] {
	m := &Map[V]{history: h, direct: direct, removed: removed}
	m.table.Store(newTable(maphash.MakeSeed(), 0, 0))
	m.dir.Store(new([]*chunk[V]))
	return m
}

// Find returns the version of k that revision sees, nil if none.
//
// A reader that has pinned the revision, and the writer, can rely on the answer. For
// any other reader it is certain when sure is true; when it is false the reader must
// check that the revision is still the current one, and look again if not.
func (m *Map[V]) Find(k object.Key, revision uint64) (v *Version[V], sure bool) {
	e := m.table.Load().lookup(k)
	if e == nil {
		return nil, false
	}
	stamp := e.stamp.Load()
	if stamp>>1 <= revision && stamp&1 != 0 {
		return nil, true
	}
	head := m.Head(e.id)
	// By now the id may have gone to another key, but only with a newer stamp.
	if head != nil && head.stamp == stamp && stamp>>1 <= revision {
		return head, true
	}
	return head.At(revision), false
}

// Direct returns the value of k that revision sees, where values are pointers: usually
// without touching the version. That is a cache miss saved, and cache misses are what a
// lookup is made of. It returns nil when it does not know; [Map.Find] does.
func (m *Map[V]) Direct(k object.Key, revision uint64) unsafe.Pointer {
	if e := m.table.Load().lookup(k); e != nil {
		stamp := e.stamp.Load()
		if p := atomic.LoadPointer(&e.direct); stamp>>1 <= revision && e.stamp.Load() == stamp {
			return p
		}
	}
	return nil
}

// Lookup returns k as it is in the revision in preparation, for the writer.
func (m *Map[V]) Lookup(k object.Key) Ref[V] {
	if e := m.table.Load().lookup(k); e != nil {
		return Ref[V]{ID: e.id, Head: m.Head(e.id), dead: e.stamp.Load()&1 != 0, entry: e}
	}
	return Ref[V]{}
}

// Key returns the key of an id that the reader's revision, or the writer, sees. For any
// other id it is some key. It is a view that keeps much more alive than the key: whoever
// keeps it makes a copy.
func (m *Map[V]) Key(id uint32) object.Key { return m.table.Load().key(id) }

// Head returns the newest version of an id that is in use.
func (m *Map[V]) Head(id uint32) *Version[V] {
	return (*m.dir.Load())[id/chunkSize].heads[id%chunkSize].Load()
}

// At returns the version that revision, which must be pinned, sees of an id; nil if none.
func (m *Map[V]) At(id uint32, revision uint64) *Version[V] {
	head := m.Head(id)
	if head != nil && head.stamp>>1 <= revision && !head.Dead() {
		return head
	}
	return head.At(revision)
}

// Gather puts the versions that revision, which must be pinned, sees of some ids into out and
// returns how many there are. Nothing but loads stands between one and the next, so that the
// processor waits for many at a time.
func (m *Map[V]) Gather(ids []uint32, revision uint64, out []*Version[V]) int {
	dir := *m.dir.Load()
	n := 0
	for _, id := range ids {
		v := dir[id/chunkSize].heads[id%chunkSize].Load()
		if v != nil && (v.stamp>>1 > revision || v.Dead()) {
			v = v.At(revision)
		}
		if v != nil {
			out[n] = v
			n++
		}
	}
	return n
}

// GatherDirect is [Map.Gather] for values that are pointers: it only looks at the versions of
// chunks that were written to since the revision.
func (m *Map[V]) GatherDirect(ids []uint32, revision uint64, out []unsafe.Pointer) int {
	dir := *m.dir.Load()
	n := 0
	for _, id := range ids {
		c := dir[id/chunkSize]
		p := atomic.LoadPointer(&c.direct[id%chunkSize])
		if c.last.Load()>>1 > revision { // in this order: it may have become so just now
			p = nil
			if v := c.heads[id%chunkSize].Load().At(revision); v != nil {
				p = m.direct(v.Value)
			}
		}
		if p != nil {
			out[n] = p
			n++
		}
	}
	return n
}

// Limit returns a number above every id in use, for the writer.
func (m *Map[V]) Limit() uint32 { return m.ids.next }

// Len returns the number of keys, dead ones included, for the writer.
func (m *Map[V]) Len() int { return m.table.Load().keys }

// Ids calls yield for every id in use with its newest version, until it returns false.
func (m *Map[V]) Ids(yield func(id uint32, head *Version[V]) bool) {
	for c, chunk := range *m.dir.Load() {
		for i := range chunk.heads {
			if v := chunk.heads[i].Load(); v != nil && !yield(uint32(c*chunkSize+i), v) {
				return
			}
		}
	}
}

// Put writes a version of k in the revision in preparation. ref is what [Map.Lookup]
// returns for k.
func (m *Map[V]) Put(k object.Key, ref Ref[V], value V) Ref[V] {
	if ref.Head == nil {
		return m.insert(k, value)
	}
	return m.push(ref, m.history.Next()<<1, value)
}

// Kill writes that the key of ref is deleted in the revision in preparation.
func (m *Map[V]) Kill(ref Ref[V]) {
	var none V
	m.push(ref, m.history.Next()<<1|1, none)
}

func (m *Map[V]) push(ref Ref[V], stamp uint64, value V) Ref[V] {
	v := &Version[V]{stamp: stamp, Value: value}
	e := ref.entry
	if e == nil {
		e = m.table.Load().of(ref.ID)
	}
	if old := e.stamp.Load(); old>>1 == stamp>>1 {
		// Written twice in one revision: nobody will ever see the first.
		below := ref.Head.older.Load()
		v.older.Store(below)
		if v.Dead() && below == nil {
			m.history.retire(m, ref.ID, stampNever) // came and went: have the key looked at
		}
	} else {
		v.older.Store(ref.Head)
		m.history.retire(m, ref.ID, old)
	}
	m.setHead(e, v)
	return Ref[V]{ID: ref.ID, Head: v, dead: v.Dead(), entry: e}
}

// setHead makes v the newest version of an entry.
func (m *Map[V]) setHead(e *entry, v *Version[V]) {
	c := (*m.dir.Load())[e.id/chunkSize]
	if m.direct != nil {
		p := m.direct(v.Value)
		e.stamp.Store(stampBusy)
		atomic.StorePointer(&e.direct, p)
		c.last.Store(v.stamp)
		atomic.StorePointer(&c.direct[e.id%chunkSize], p)
	}
	c.heads[e.id%chunkSize].Store(v)
	e.stamp.Store(v.stamp)
}

func (m *Map[V]) insert(k object.Key, value V) Ref[V] {
	id, again := m.ids.take()
	if again {
		m.shifts.Add(1) // before anybody can find it under its new key
	}
	v := &Version[V]{stamp: m.history.Next() << 1, Value: value}
	if dir := *m.dir.Load(); int(id/chunkSize) == len(dir) {
		// Appending in place is invisible to readers of the shorter slice; the copy
		// is only made when append has to grow.
		c := new(chunk[V])
		if m.direct != nil {
			c.direct = new([chunkSize]unsafe.Pointer)
		}
		dir = append(dir, c)
		m.dir.Store(&dir)
	}
	m.Reserve(1)
	t := m.table.Load()
	i, h := t.fill(k, id)
	m.setHead(&t.entries[i], v)
	t.use(i, h)
	return Ref[V]{ID: id, Head: v, entry: &t.entries[i]}
}

// Reserve makes room for n more keys at once.
func (m *Map[V]) Reserve(n int) {
	if t := m.table.Load(); t.full(n) || int(m.ids.next) > len(t.byID) {
		m.setTable(t.grown(n, m.ids.next))
	}
}

func (m *Map[V]) setTable(t *table) {
	m.shifts.Add(1) // it does not know the keys of ids that are not in use
	m.table.Store(t)
}

// Shifts returns a number that changes before an id that was in use stands for another
// key, or for none.
func (m *Map[V]) Shifts() uint64 { return m.shifts.Load() }

// cut unlinks the version of that stamp from the id's chain, and drops the key when
// nothing but its deletion is left.
func (m *Map[V]) cut(id uint32, stamp uint64, alone bool) {
	head := m.Head(id)
	if head == nil {
		return
	}
	if alone {
		head.older.Store(nil) // without a look at it: it is not in the cache
	}
	for v := head; ; {
		below := v.older.Load()
		if below == nil {
			break
		}
		if below.stamp == stamp {
			// below keeps its own link: a reader may be passing through it.
			v.older.Store(below.older.Load())
			break
		}
		v = below
	}
	if head.Dead() && head.First() {
		m.remove(id)
	}
}

func (m *Map[V]) remove(id uint32) {
	t := m.table.Load()
	if m.removed != nil {
		m.removed(t.key(id))
	}
	t.drop(uint64(t.byID[id].Load() - 1))
	(*m.dir.Load())[id/chunkSize].heads[id%chunkSize].Store(nil)
	m.ids.give(id)
	if t.sparse() {
		m.setTable(t.grown(0, m.ids.next))
	}
}
