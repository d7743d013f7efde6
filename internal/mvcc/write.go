package mvcc

import (
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// The methods of Map in this file are for the writer.

// Lookup returns the ref of a key.
func (m *Map) Lookup(k object.Key) Ref { return m.lookup(k, m.hash(k)) }

func (m *Map) lookup(k object.Key, hash uint64) Ref {
	dir, t := *m.dir.Load(), m.table.Load()
	tag := tagOf(hash)
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for f := g.matches(tag); f != 0; f &= f - 1 {
			id := g.ids[slotOf(f)].Load()
			if dir[id>>blockBits].is(id&(blockSize-1), k, m.spaces) {
				return Ref{ID: id, known: true}
			}
		}
		if g.empty() {
			return Ref{hash: hash}
		}
	}
}

// Ahead is how many keys [Map.LookupAll] takes.
const Ahead = 16

// LookupAll is [Map.Lookup] for up to [Ahead] keys. Their cache lines are far apart, so it loads
// first those of the table and then those of the records and notes before it looks at any: the
// processor waits for all at once. The rows "Replace with nothing changed" and "update, batches of
// 100" of the benchmarks pay for it.
func (m *Map) LookupAll(keys []object.Key, refs []Ref) {
	t, dir := m.table.Load(), *m.dir.Load()
	var hashes [Ahead]uint64
	for i, k := range keys {
		hashes[i] = m.hash(k)
		t.groups[t.home(hashes[i])].tags[0].Load()
	}
	for i := range keys {
		g := &t.groups[t.home(hashes[i])]
		if f := g.matches(tagOf(hashes[i])); f != 0 {
			if b, at, ok := locate(dir, g.ids[slotOf(f)].Load()); ok {
				b.records[at].stamp.Load()
				if m.width > 0 {
					atomic.LoadUint64(&b.notes[int(at)*m.width])
				}
			}
		}
	}
	for i, k := range keys {
		refs[i] = m.lookup(k, hashes[i])
	}
}

// record returns the record of an id that is in use.
func (m *Map) record(id uint32) *record {
	return &(*m.dir.Load())[id>>blockBits].records[id&(blockSize-1)]
}

// Live returns the newest value, nil if the key is unknown or deleted.
func (m *Map) Live(r Ref) Value {
	if !r.known {
		return nil
	}
	return m.record(r.ID).value
}

// Lives calls yield with every id that is not deleted, and its newest value, without order, until
// yield returns false.
func (m *Map) Lives(yield func(id uint32, v Value) bool) {
	for c, b := range *m.dir.Load() {
		for i, v := range b.values {
			if v != nil && !yield(uint32(c<<blockBits+i), v) {
				return
			}
		}
	}
}

// Created reports whether the key was created in the revision in preparation.
func (m *Map) Created(r Ref) bool {
	rec := m.record(r.ID)
	return rec.stamp.Load()>>1 == m.history.Next() && rec.older.Load() == nil
}

// Note returns the notes of an id that is in use. Readers may load the first three meanwhile, so the
// writer stores these with package atomic; the others are its own.
func (m *Map) Note(id uint32) []uint64 {
	at := int(id&(blockSize-1)) * m.width
	return (*m.dir.Load())[id>>blockBits].notes[at : at+m.width]
}

// Limit returns a number above every id in use.
func (m *Map) Limit() uint32 { return m.ids.next }

// Len returns the number of keys that some revision sees.
func (m *Map) Len() int { return m.table.Load().ids }

// Put writes a value, not nil, of a key in the revision in preparation. r is what [Map.Lookup]
// returned for k.
func (m *Map) Put(k object.Key, r Ref, v Value) Ref {
	if !r.known {
		return m.insert(k, r.hash, v)
	}
	m.push(r.ID, m.history.Next()<<1, v)
	return r
}

// Delete writes that a key is deleted in the revision in preparation.
func (m *Map) Delete(r Ref) { m.push(r.ID, m.history.Next()<<1|1, nil) }

func (m *Map) push(id uint32, stamp uint64, v Value) {
	b, i := (*m.dir.Load())[id>>blockBits], id&(blockSize-1)
	r := &b.records[i]
	if old := r.stamp.Load(); old>>1 != stamp>>1 {
		was := m.version()
		was.stamp, was.value = old, r.value
		if older := r.older.Load(); older != nil {
			was.older.Store(older)
		}
		r.older.Store(was)
		m.history.retire(m, id, old)
	} else if stamp&1 != 0 && r.older.Load() == nil {
		// Created and deleted in one revision, which no reader will ever see.
		m.history.retire(m, id, stampNever)
	}
	m.set(b, i, stamp, v)
}

// set makes v the newest value of the record at i.
func (m *Map) set(b *block, i uint32, stamp uint64, v Value) {
	if m.last.Load() != stamp {
		m.last.Store(stamp)
	}
	if last := &b.last[i>>spanBits]; last.Load() != stamp {
		last.Store(stamp)
	}
	b.records[i].stamp.Store(stamp)
	storeValue(&b.records[i].value, v)
	storeValue(&b.values[i], v)
}

// version returns a version to fill in. They are allocated 32 at a time; one that is kept keeps
// the memory of all, but not what the others point to.
func (m *Map) version() *version {
	if len(m.spare) == 0 {
		m.spare = make([]version, 32)
	}
	v := &m.spare[0]
	m.spare = m.spare[1:]
	return v
}

func (m *Map) insert(k object.Key, hash uint64, v Value) Ref {
	m.Reserve(1)
	id := m.takeID()
	b, i := (*m.dir.Load())[id>>blockBits], id&(blockSize-1)
	n := m.spaces.enter(k.Namespace)
	b.setKey(i, n, k)
	m.set(b, i, m.history.Next()<<1, v)
	m.table.Load().insert(hash, id)
	b.cells[i] = n.ids.add(id + 1)
	return Ref{ID: id, known: true}
}

// Reserve makes room for n more keys at once.
func (m *Map) Reserve(n int) {
	if t := m.table.Load(); t.full(n) {
		m.table.Store(t.rebuilt(n, m.hashOf))
	}
}

func (m *Map) hashOf(id uint32) uint64 { return m.hash(m.Key(id)) }

// takeID returns an id that has a record and no key.
func (m *Map) takeID() uint32 {
	if len(m.ids.free) == 0 {
		m.renew()
	}
	id, reused := m.ids.take()
	if reused {
		return id
	}
	dir := *m.dir.Load()
	switch c := int(id >> blockBits); {
	case c == len(dir):
		dir = append(dir, newBlock(max(8, min(blockSize/8, int(id)/8)), m.width)) // readers of the shorter slice do not see it
		m.dir.Store(&dir)
		m.freed = append(m.freed, nil)
	case int(id&(blockSize-1)) == len(dir[c].records):
		m.replace(c, min(blockSize, 2*len(dir[c].records)))
	}
	return id
}

// replace publishes a copy, of that size, of a block.
func (m *Map) replace(c, size int) *block {
	b := newBlock(size, m.width)
	(*m.dir.Load())[c].copyTo(b)
	m.setBlock(c, b)
	return b
}

func (m *Map) setBlock(c int, b *block) {
	dir := append([]*block(nil), *m.dir.Load()...)
	dir[c] = b
	m.dir.Store(&dir)
}

// renewable is how many free ids make a block worth copying.
const renewable = blockSize / 8

// renew copies the block with the most free ids, if these are many, so that they can be reused.
func (m *Map) renew() {
	best := -1
	for c := range m.freed {
		if n := len(m.freed[c]); n >= renewable && (best < 0 || n > len(m.freed[best])) {
			best = c
		}
	}
	if best < 0 {
		return
	}
	old := (*m.dir.Load())[best]
	b := newBlock(len(old.records), m.width)
	if old != m.blank { // there is nothing to copy
		old.copyTo(b)
	}
	for _, id := range m.freed[best] {
		b.forget(id & (blockSize - 1))
	}
	m.setBlock(best, b)
	m.ids.free, m.freed[best] = m.freed[best], nil
}

// Widen gives every id n more words of notes.
func (m *Map) Widen(n int) {
	from, to := m.width, m.width+n
	m.width = to
	dir := append([]*block(nil), *m.dir.Load()...)
	wide := map[*block]*block{} // the blank block may be there several times
	for c, b := range dir {
		if wide[b] == nil {
			wide[b] = b.widened(from, to)
		}
		dir[c] = wide[b]
	}
	if m.blank != nil {
		m.blank = wide[m.blank]
	}
	m.dir.Store(&dir)
}

// cut implements cutter: it unlinks the version of that stamp from the chain of an id, and
// removes the key if only its deletion is left.
func (m *Map) cut(id uint32, stamp uint64, alone bool) {
	r := m.record(id)
	if r.stamp.Load() == 0 {
		return // the key was removed already
	}
	link := &r.older
	for v := link.Load(); v != nil; v = link.Load() {
		if alone || v.stamp == stamp {
			// v keeps its own link, because a reader may be passing through it. A reader that
			// needs v's value has no pin and will search again.
			link.Store(v.older.Load())
			storeValue(&v.value, nil)
			if alone {
				continue
			}
			break
		}
		link = &v.older
	}
	if r.stamp.Load()&1 != 0 && r.older.Load() == nil {
		m.remove(id)
	}
}

// remove takes a key, which no revision sees, out of the map.
func (m *Map) remove(id uint32) {
	c, i := int(id>>blockBits), id&(blockSize-1)
	t, b := m.table.Load(), (*m.dir.Load())[c]
	t.remove(m.hashOf(id), id)
	n := m.spaces.at(b.records[i].space)
	n.ids.remove(b.cells[i])
	if n.ids.sparse() {
		n.ids.shrink(func(id, cell uint32) { (*m.dir.Load())[id>>blockBits].cells[id&(blockSize-1)] = cell })
	}
	b.records[i].stamp.Store(0)
	m.spaces.left(n)
	m.freed[c] = append(m.freed[c], id)
	if len(m.freed[c]) == blockSize {
		if m.blank == nil {
			m.blank = newBlock(blockSize, m.width)
		}
		m.setBlock(c, m.blank)
	}
	if t.sparse() {
		m.table.Store(t.rebuilt(0, m.hashOf))
	}
}
