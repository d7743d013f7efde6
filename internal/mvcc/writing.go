package mvcc

import (
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// Put writes a value of k, not nil, in the revision in preparation. r is what [Map.Lookup]
// returns for k.
func (m *Map) Put(k object.Key, r Ref, value unsafe.Pointer) Ref {
	if !r.known {
		return m.insert(k, r.hash, value)
	}
	m.push(r.ID, m.history.Next()<<1, value)
	return r
}

// Kill writes that the key of r is deleted in the revision in preparation.
func (m *Map) Kill(r Ref) { m.push(r.ID, m.history.Next()<<1|1, nil) }

func (m *Map) push(id uint32, stamp uint64, value unsafe.Pointer) {
	b, i := (*m.dir.Load())[id>>blockBits], id&(blockSize-1)
	r := &b.records[i]
	if old := r.stamp.Load(); old>>1 != stamp>>1 {
		v := m.version()
		v.stamp, v.value = old, r.value
		v.older.Store(r.older.Load())
		r.older.Store(v)
		m.history.retire(m, id, old)
	} else if stamp&1 != 0 && r.older.Load() == nil {
		// Written twice in one revision: nobody will ever see the first. It came and
		// went: have the key looked at.
		m.history.retire(m, id, stampNever)
	}
	m.set(b, i, stamp, value)
}

// set makes a value the newest of the record at i.
func (m *Map) set(b *block, i uint32, stamp uint64, value unsafe.Pointer) {
	if m.last.Load() != stamp {
		m.last.Store(stamp)
	}
	if last := &b.last[i>>spanBits]; last.Load() != stamp {
		last.Store(stamp)
	}
	b.records[i].stamp.Store(stamp)
	atomic.StorePointer(&b.records[i].value, value)
	atomic.StorePointer(&b.values[i], value)
}

// version returns a version to fill in. They are made some at a time. That one of them is
// kept keeps the others, but not what they pointed to.
func (m *Map) version() *version {
	if len(m.spare) == 0 {
		m.spare = make([]version, 32)
	}
	v := &m.spare[0]
	m.spare = m.spare[1:]
	return v
}

func (m *Map) insert(k object.Key, hash uint64, value unsafe.Pointer) Ref {
	m.Reserve(1)
	id := m.takeID()
	t := m.table.Load()
	b, i := (*m.dir.Load())[id>>blockBits], id&(blockSize-1)
	b.setKey(i, t.spaces.enter(k.Namespace), k)
	m.set(b, i, m.history.Next()<<1, value)
	t.insert(hash, id)
	return Ref{ID: id, known: true}
}

// Reserve makes room for n more keys at once.
func (m *Map) Reserve(n int) {
	if t := m.table.Load(); t.full(n) {
		m.rebuild(n)
	}
}

// rebuild makes a table with room for n more keys.
func (m *Map) rebuild(n int) {
	t := m.table.Load()
	if n == 1 {
		n = t.keys/8 + 1 // one by one
	}
	c := newGroups(t.seed, t.spaces, t.keys+n)
	for at := range t.list {
		g := &t.list[at]
		for slot := range g.ids {
			if g.tag(slot)&laneUsed != 0 {
				id := g.ids[slot].Load()
				c.insert(t.hashOf(m.Key(id)), id)
			}
		}
	}
	m.table.Store(c)
}

// takeID returns an id that has a record and stands for no key.
func (m *Map) takeID() uint32 {
	if len(m.ids.free) == 0 {
		m.renew()
	}
	id, again := m.ids.take()
	if again {
		m.shifts.Add(1) // before anybody can find it under its new key
		return id
	}
	dir := *m.dir.Load()
	switch c := int(id >> blockBits); {
	case c == len(dir):
		// Appending in place is invisible to readers of the shorter slice.
		dir = append(dir, newBlock(max(8, min(blockSize/8, int(id)/8)), m.width))
		m.dir.Store(&dir)
		m.freed = append(m.freed, nil)
	case int(id&(blockSize-1)) == len(dir[c].records):
		m.replace(c, min(blockSize, 2*len(dir[c].records)))
	}
	return id
}

// replace puts a copy of that size in the place of a block.
func (m *Map) replace(c, size int) *block {
	b := newBlock(size, m.width)
	m.at(c).copyTo(b)
	m.setBlock(c, b)
	return b
}

func (m *Map) at(c int) *block { return (*m.dir.Load())[c] }

func (m *Map) setBlock(c int, b *block) {
	dir := append([]*block(nil), *m.dir.Load()...)
	dir[c] = b
	m.dir.Store(&dir)
}

// renewable is how many free ids make a block worth copying.
const renewable = blockSize / 8

// renew copies the block with the most free ids, if these are many, so that they can be
// used again.
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
	var b *block
	if m.at(best) == m.blank {
		b = newBlock(blockSize, m.width)
		m.setBlock(best, b)
	} else {
		b = m.replace(best, blockSize)
	}
	for _, id := range m.freed[best] {
		b.forget(id & (blockSize - 1))
	}
	m.ids.free, m.freed[best] = m.freed[best], nil
}

// forget makes the record at i one that no key ever had, before anybody can see the block.
func (b *block) forget(i uint32) {
	b.records[i].size = 0
	if keys := b.long.Load(); keys != nil {
		(*keys)[i] = nil
	}
	width := len(b.notes) / len(b.records)
	for w := range width {
		b.notes[int(i)*width+w].Store(0)
	}
}

// Widen gives every id n more words of notes.
func (m *Map) Widen(n int) {
	from, to := m.width, m.width+n
	m.width = to
	dir := append([]*block(nil), *m.dir.Load()...)
	for c, b := range dir {
		if b == m.blank {
			continue
		}
		dir[c] = b.widened(from, to)
	}
	if m.blank != nil {
		wide := m.blank.widened(from, to)
		for c, b := range dir {
			if b == m.blank {
				dir[c] = wide
			}
		}
		m.blank = wide
	}
	m.dir.Store(&dir)
}

// Shifts returns a number that changes before an id that was in use stands for another
// key.
func (m *Map) Shifts() uint64 { return m.shifts.Load() }

// cut unlinks the version of that stamp from the id's chain, and drops the key when
// nothing but its deletion is left.
func (m *Map) cut(id uint32, stamp uint64, alone bool) {
	r := m.record(id)
	if r.stamp.Load() == 0 {
		return // the key has left already
	}
	link := &r.older
	for v := link.Load(); v != nil; v = link.Load() {
		if alone || v.stamp == stamp {
			// v keeps its own link: a reader may be passing through it. One who is not,
			// and finds nothing there, has no pin and will look again.
			link.Store(v.older.Load())
			atomic.StorePointer(&v.value, nil)
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

func (m *Map) remove(id uint32) {
	c, i := int(id>>blockBits), id&(blockSize-1)
	t, b := m.table.Load(), m.at(c)
	k := b.keyOf(i, t.spaces)
	if m.removed != nil {
		m.removed(id, k)
	}
	t.remove(t.hashOf(k), id)
	t.spaces.leave(b.records[i].space)
	b.records[i].stamp.Store(0)
	m.freed[c] = append(m.freed[c], id)
	if len(m.freed[c]) == blockSize {
		if m.blank == nil {
			m.blank = newBlock(blockSize, m.width)
		}
		m.setBlock(c, m.blank)
	}
	if t.sparse() {
		m.rebuild(0)
	}
}
