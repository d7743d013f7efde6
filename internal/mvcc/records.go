package mvcc

import (
	"strings"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// record is a key and its newest version, published or not, in one cache line: all that a Get
// has to touch.
//
// The key does not change once a reader can find the record. The writer sets older, then stamp,
// then value. So a reader that loads the same stamp before and after the value, and whose
// revision is not before that stamp, has the value of that stamp.
type record struct {
	stamp atomic.Uint64 // revision<<1, plus 1 if the key was deleted; 0 if there is no key
	value Value         // nil if the key was deleted
	older atomic.Pointer[version]
	space uint16        // the number of the namespace
	size  uint8         // the length of the name, or elsewhere
	text  [maxName]byte // the name
}

const (
	maxName   = 37
	elsewhere = 255 // the key is in the block's long keys
)

// version is a superseded value that some revision may still see.
type version struct {
	stamp uint64
	value Value // nil once no revision sees it
	older atomic.Pointer[version]
}

// at returns the value that a revision sees, nil if there is none.
func (r *record) at(revision uint64) Value {
	v, _ := r.look(revision)
	return v
}

// look is at that also reports whether it found the value in the record itself, not in the chain
// of older versions. Then the answer is right even if the revision is not pinned.
func (r *record) look(revision uint64) (v Value, newest bool) {
	stamp := r.stamp.Load()
	if v := loadValue(&r.value); stamp>>1 <= revision && r.stamp.Load() == stamp {
		return v, true
	}
	for old := r.older.Load(); old != nil; old = old.older.Load() {
		if old.stamp>>1 <= revision {
			return loadValue(&old.value), false
		}
	}
	return nil, false
}

// block holds the records of consecutive ids, and what else is kept for each id.
//
// A record's key is written once in the life of a block. To reuse ids, the writer copies the
// block and publishes the copy. A reader that still has the old block finds there what was true
// when it was replaced, which includes everything its revision can see.
type block struct {
	records []record
	// values repeats the records' values side by side, for reading many. No value is newer
	// than the stamp in last of its span of ids, which the writer sets first.
	values []Value
	last   []atomic.Uint64
	// notes are words that the map's user keeps for each id. Readers load the first three; the
	// others are for the writer only.
	notes []uint64
	long  *atomic.Pointer[[]*object.Key] // keys that do not fit their records; nil if none
	cells []uint32                       // where each id is in its namespace; writer only
}

const (
	blockBits = 12
	blockSize = 1 << blockBits // large enough that the allocator wastes nothing
	spanBits  = 8
)

// SpanSize is the number of ids in a span; see [Map.Span].
const SpanSize = 1 << spanBits

func newBlock(size, width int) *block {
	return &block{
		records: make([]record, size),
		values:  make([]Value, size),
		last:    make([]atomic.Uint64, (size-1)>>spanBits+1),
		notes:   make([]uint64, size*width),
		long:    new(atomic.Pointer[[]*object.Key]),
		cells:   make([]uint32, size),
	}
}

// copyTo copies b into c, which is not smaller and which no reader can see yet.
func (b *block) copyTo(c *block) {
	copy(c.records, b.records)
	copy(c.values, b.values)
	copy(c.last, b.last)
	copy(c.notes, b.notes)
	copy(c.cells, b.cells)
	if keys := b.long.Load(); keys != nil {
		long := make([]*object.Key, len(c.records))
		copy(long, *keys)
		c.long.Store(&long)
	}
}

// widened returns a block that shares everything with b except the notes, which have more words.
func (b *block) widened(from, to int) *block {
	c := *b
	c.notes = make([]uint64, len(b.records)*to)
	for i := range b.records {
		copy(c.notes[i*to:], b.notes[i*from:(i+1)*from])
	}
	return &c
}

// is reports whether the record at i is that of k.
//
// A reader may see the record of a key that was removed meanwhile, and whose namespace's number
// another namespace got since. It then finds no value there, which is right: the reader's revision
// has no key of a namespace that was created after the reader began.
func (b *block) is(i uint32, k object.Key, all *namespaces) bool {
	r := &b.records[i]
	if r.size == elsewhere {
		return *(*b.long.Load())[i] == k
	}
	if int(r.size) != len(k.Name) || string(r.text[:len(k.Name)]) != k.Name {
		return false
	}
	in := all.at(r.space)
	return in != nil && in.name == k.Namespace
}

// setKey writes a key, of which it keeps a copy, into the record at i.
func (b *block) setKey(i uint32, n *namespace, k object.Key) {
	r := &b.records[i]
	r.space = n.number
	if len(k.Name) <= maxName && n.number != noNumber {
		r.size = uint8(copy(r.text[:], k.Name))
		return
	}
	r.size = elsewhere
	long := b.long.Load()
	if long == nil {
		keys := make([]*object.Key, len(b.records))
		long = &keys
	}
	(*long)[i] = &object.Key{Namespace: strings.Clone(k.Namespace), Name: strings.Clone(k.Name)}
	b.long.Store(long)
}

// keyOf returns the key of the record at i. The strings share the block's memory.
func (b *block) keyOf(i uint32, all *namespaces) object.Key {
	r := &b.records[i]
	if r.size == elsewhere {
		return *(*b.long.Load())[i]
	}
	in := all.at(r.space)
	if in == nil { // the key was removed, and then its namespace
		return object.Key{}
	}
	return object.Key{Namespace: in.name, Name: view(&r.text, r.size)}
}

// forget clears the record at i, which has no key, for another key. No reader can see the block
// yet.
func (b *block) forget(i uint32) {
	b.records[i].size = 0
	if keys := b.long.Load(); keys != nil {
		(*keys)[i] = nil
	}
	width := len(b.notes) / len(b.records)
	clear(b.notes[int(i)*width:][:width])
}
