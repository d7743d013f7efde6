package mvcc

import (
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// record is just one cache line: all that a lookup has to touch of a key of usual length.
// Its key is not changed once a reader can find it. What is in stamp and value is that of
// the newest version, published or not. The writer sets older before stamp before value,
// and a reader who finds the same stamp before and after looking at the value has a value
// of that stamp, if the stamp is not after his revision.
type record struct {
	stamp atomic.Uint64  // revision<<1, plus 1 where the key was deleted; 0 if there is no key
	value unsafe.Pointer // nil where the key was deleted
	older atomic.Pointer[version]
	space uint16 // the number of the namespace
	// The length of the name, and its text; or elsewhere, with the key in the block's long
	// ones.
	size uint8
	text [maxName]byte
}

const (
	maxName   = 37
	elsewhere = 255
)

// version is what a key had before; somebody may still see it.
type version struct {
	stamp uint64
	value unsafe.Pointer // nil once it was cut
	older atomic.Pointer[version]
}

// at returns the value that revision sees, nil if there is none.
func (r *record) at(revision uint64) unsafe.Pointer {
	stamp := r.stamp.Load()
	if p := atomic.LoadPointer(&r.value); stamp>>1 <= revision && r.stamp.Load() == stamp {
		return p
	}
	for v := r.older.Load(); v != nil; v = v.older.Load() {
		if v.stamp>>1 <= revision {
			return atomic.LoadPointer(&v.value)
		}
	}
	return nil
}

// block has the records of consecutive ids, and what else there is for each.
//
// Keys are written once in the life of a block. When many of its ids are free, a copy
// takes its place, in which they can stand for other keys. A reader who still has the old
// block sees there what was true when it was replaced, and that is all he can ask for.
type block struct {
	records []record
	// values repeats those of the records side by side, for whoever visits many. No value is
	// newer than the last stamp of its span, which is set before the value is.
	values []unsafe.Pointer
	last   []atomic.Uint64
	// notes are some words for each id that whoever uses the map writes there.
	notes []atomic.Uint64
	long  *atomic.Pointer[[]*object.Key] // keys that do not fit their records; nil if none
}

const (
	blockBits = 12
	blockSize = 1 << blockBits // so large that the allocator wastes nothing
	spanBits  = 8
)

func newBlock(size, width int) *block {
	return &block{
		records: make([]record, size),
		values:  make([]unsafe.Pointer, size),
		last:    make([]atomic.Uint64, (size-1)>>spanBits+1),
		notes:   make([]atomic.Uint64, size*width),
		long:    new(atomic.Pointer[[]*object.Key]),
	}
}

// copyTo copies what is in b, which is not larger, into c, which nobody else can see yet.
func (b *block) copyTo(c *block) {
	copy(c.records, b.records)
	copy(c.values, b.values)
	copy(c.last, b.last)
	copy(c.notes, b.notes)
	if keys := b.long.Load(); keys != nil {
		long := make([]*object.Key, len(c.records))
		copy(long, *keys)
		c.long.Store(&long)
	}
}

// widened returns a block that shares all of b but the notes, which have more words.
func (b *block) widened(from, to int) *block {
	c := *b
	c.notes = make([]atomic.Uint64, len(b.records)*to)
	for i := range b.records {
		copy(c.notes[i*to:], b.notes[i*from:(i+1)*from])
	}
	return &c
}

// touch has the processor fetch all that a write to the record at i will want, at once. Atomic
// stores make it wait for one after the other.
func (b *block) touch(i uint32, width int) {
	atomic.LoadPointer(&b.values[i])
	b.last[i>>spanBits].Load()
	if width > 0 {
		b.notes[int(i)*width].Load()
		b.notes[int(i+1)*width-1].Load()
	}
}

// is reports whether the record at i is that of k, whose namespace has that number. A key that
// is kept elsewhere is compared in full: its namespace may have had no number when the key came,
// and one now.
func (b *block) is(i uint32, space uint16, k object.Key) bool {
	r := &b.records[i]
	if r.size == elsewhere {
		return *(*b.long.Load())[i] == k
	}
	return r.space == space && int(r.size) == len(k.Name) && string(r.text[:len(k.Name)]) == k.Name
}

// setKey writes a key, of which it keeps a copy, into the record at i.
func (b *block) setKey(i uint32, space uint16, k object.Key) {
	r := &b.records[i]
	r.space = space
	if len(k.Name) <= maxName && space != noSpace {
		r.size = uint8(copy(r.text[:], k.Name))
		return
	}
	r.size = elsewhere
	long := b.long.Load()
	if long == nil {
		keys := make([]*object.Key, len(b.records))
		long = &keys
	}
	(*long)[i] = &object.Key{Namespace: string([]byte(k.Namespace)), Name: string([]byte(k.Name))}
	b.long.Store(long)
}

// keyOf returns the key of the record at i, as a view that keeps the whole block alive.
func (b *block) keyOf(i uint32, spaces *spaces) object.Key {
	r := &b.records[i]
	if r.size == elsewhere {
		return *(*b.long.Load())[i]
	}
	in := spaces.at(r.space)
	if in == nil { // the key is gone, and its namespace too, or there was none
		return object.Key{}
	}
	return object.Key{Namespace: in.name, Name: unsafe.String(&r.text[0], r.size)}
}
