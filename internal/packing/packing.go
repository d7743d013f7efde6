// Package packing stores many similar byte strings, such as the encoded objects of one
// resource, as their differences from a dictionary of some of them.
//
// A [Packer] packs one string at a time. The result, a [Packed], can be unpacked by any
// number of concurrent readers.
package packing

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// maxDictionary is the length of a dictionary: some 1,300 pods, one of each template of a large
	// cluster. With 1 MB, pods that change in random order take a third more, and every
	// fifth of them is added; packing then takes a tenth less time.
	maxDictionary = 4 << 20
	minDictionary = 16 << 10
	// maxAdded is the length of the longest string that is added to a dictionary.
	maxAdded = 128 << 10
	// warmUp is the length up to which a dictionary may grow before it has saved as many
	// bytes as it has. One of dissimilar strings never does.
	warmUp = 64 << 10
	// maxGenerations is how many dictionaries may be in use. Another is begun when one is
	// full and has paid off, because objects change over the months; an old one is freed with
	// the last string that was packed with it.
	maxGenerations = 4

	// shorter is how many times shorter a string must become to count as similar to the
	// dictionary. For pods 6 is best: with 4 they take a fifth more, and with 8 there are
	// several times the dictionaries.
	shorter = 6

	seq    = 8 // bytes that are compared at a time
	stride = 4 // every so many offsets of a dictionary are indexed
	// window is within how many bytes a string must be like the dictionary again to be compared with
	// what follows there. Long enough for UID, version and time of an object, or a hash.
	window = 80
)

// Packer packs byte strings. The zero Packer is ready to use. All methods may be called from
// any goroutine.
//
// A string that is not similar to the dictionary is added to it and packed as a reference
// to itself. So the dictionary fills with one string of each sort. Strings that do not fit
// are stored unpacked.
//
// Memory beyond the packed strings is bounded: a table of 4 MB, and at most four dictionaries
// of 4 MB. Both are as long as the strings that were added, up to the next power of two.
//
// Rejected: zstd with a dictionary, which takes 9 times as long to pack and 7 to 20 times
// as long to unpack; docs/decisions/0010-compact-form.md has the figures.
type Packer struct {
	// now is what strings are packed with, without the lock; nil before the first. The holder of
	// mu replaces it.
	now     atomic.Pointer[book]
	buffers sync.Pool // of *[]byte

	mu    sync.Mutex // guards the fields below and additions to the dictionary
	dict  *Dictionary
	used  int // bytes of the dictionary
	saved int // bytes, by the strings packed with it
	table []uint32
	// best is the part of its length to which a string is packed, of those that are packed
	// best: it falls quickly and rises slowly.
	best float64

	generations *atomic.Int32
}

// book is a dictionary at one length, with its table.
type book struct {
	dict *Dictionary
	text []byte // nothing writes to it
	// table has, for the hash of some bytes, where in the dictionary they are, plus one. Later
	// books share it: the holder of the packer's lock writes to it, atomically, so an entry may be
	// for what comes after text.
	table []uint32
	shift int
}

// Dictionary is the text that packed strings refer to. The packer only appends to it, so
// readers may use it meanwhile.
type Dictionary struct {
	text atomic.Pointer[[]byte] // of its whole capacity
}

// Packed is a packed string, or the string itself if packing did not pay.
type Packed struct {
	dict *Dictionary // nil: data is the string
	// data is the length of the string and then, alternating, literal bytes, with their
	// number before them, and references, as length and distance from the end of the one
	// before.
	data []byte
}

// Plain returns a string that is held unpacked.
func Plain(data []byte) Packed { return Packed{data: data} }

// Size returns how many bytes it takes, without what it refers to.
func (p Packed) Size() int { return len(p.data) }

// Bytes returns the string, which the caller must not change. It unpacks to buf, which may
// be nil and grows as needed.
func (p Packed) Bytes(buf *[]byte) []byte {
	if p.dict == nil {
		return p.data
	}
	if buf == nil {
		buf = new([]byte)
	}
	out, err := Unpack(*buf, *p.dict.text.Load(), p.data, math.MaxInt)
	if err != nil {
		panic(err) // Pack made the data
	}
	*buf = out
	return out
}

// Pack packs a string. It does not keep src.
func (p *Packer) Pack(src []byte) Packed {
	buf, ok := p.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer p.buffers.Put(buf)
	b := p.book()
	*buf = b.pack((*buf)[:0], src)
	if !p.note(len(*buf), len(src)) {
		return p.unlike(b, buf, src)
	}
	return Packed{dict: b.dict, data: bytes.Clone(*buf)}
}

// book returns what strings are packed with.
func (p *Packer) book() *book {
	if b := p.now.Load(); b != nil {
		return b
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dict == nil {
		p.begin()
	}
	return p.now.Load()
}

// note counts a string that was packed from so many bytes to so few, and reports whether it is alike.
func (p *Packer) note(packed, length int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.alike(packed, length)
	if is {
		p.saved += length - packed
	}
	return is
}

// unlike packs a string that is like nothing in b. buf has what became of it there.
func (p *Packer) unlike(b *book, buf *[]byte, src []byte) Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	alike := false
	if now := p.now.Load(); now != b { // another goroutine has added to it since
		b = now
		*buf = b.pack((*buf)[:0], src)
		alike = p.alike(len(*buf), len(src))
	}
	if !alike {
		if at, ok := p.add(src); ok {
			whole := binary.AppendUvarint((*buf)[:0], uint64(len(src)))
			return Packed{dict: p.dict, data: bytes.Clone(refer(whole, nil, len(src), at))}
		}
		if len(*buf) > len(src)*7/8 {
			return Plain(bytes.Clone(src))
		}
	}
	p.saved += len(src) - len(*buf)
	return Packed{dict: b.dict, data: bytes.Clone(*buf)}
}

// alike reports whether a string that was packed from so many bytes to so few is like
// something in the dictionary. Where even the best are packed to more than a sixth, as some
// custom resources are, a string that is packed nearly as well is alike too: adding it would
// cost its length and save others little.
func (p *Packer) alike(packed, length int) bool {
	if length == 0 {
		return true
	}
	part := float64(packed) / float64(length)
	is := part <= max(1.0/shorter, p.best*4/3)
	if part < p.best {
		p.best += (part - p.best) / 4
	} else {
		p.best += (part - p.best) / 128
	}
	return is
}

// refer appends literal bytes and a reference.
func refer(dst, literals []byte, length, distance int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(literals)))
	dst = append(dst, literals...)
	dst = binary.AppendUvarint(dst, uint64(length))
	return binary.AppendVarint(dst, int64(distance))
}

// pack appends src, packed, to dst.
func (b *book) pack(dst, src []byte) []byte {
	text := b.text
	dst = binary.AppendUvarint(dst, uint64(len(src)))
	done, end := 0, 0 // of src; in text, where the last reference ended
	for i := 0; i+seq <= len(src); {
		at := min(end+i-done, len(text))
		n := resume(src[i:], text[at:])
		if n >= seq {
			// What differs is long. It may be elsewhere in the dictionary.
			if other := b.lookup(src[i:]); other >= 0 {
				n, at = 0, other
			}
		}
		if n >= 0 {
			i, at = i+n, at+n
		} else if i, at = b.find(src, i, done); at < 0 {
			break
		}
		from := i
		for from > done && at > 0 && src[from-1] == text[at-1] {
			from, at = from-1, at-1
		}
		n = i - from + seq
		n += common(src[from+n:], text[at+n:])
		dst = refer(dst, src[done:from], n, at-end)
		i, done, end = from+n, from+n, at+n
	}
	if done < len(src) {
		dst = binary.AppendUvarint(dst, uint64(len(src)-done))
		dst = append(dst, src[done:]...)
	}
	return dst
}

// resume returns after how many bytes the strings are equal again for the length of seq, if that is
// within the window; otherwise -1.
func resume(a, b []byte) int {
	for n := 0; n < window && n+seq <= len(a) && n+seq <= len(b); {
		x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:])
		if x == 0 {
			return n
		}
		n += 8 - bits.LeadingZeros64(x)/8 // after the last byte that differs
	}
	return -1
}

// find returns an offset of src from i on and one of the dictionary from which on they are equal for the
// length of seq; at is negative if there is none. What precedes i, from done on, is like nothing: the
// longer that is, the more offsets are skipped.
func (b *book) find(src []byte, i, done int) (next, at int) {
	for ; i+seq <= len(src); i += 1 + (i-done)>>4 {
		if at := b.lookup(src[i:]); at >= 0 {
			return i, at
		}
	}
	return i, -1
}

// lookup returns an offset of the dictionary at which it has the first bytes of src, of the length of
// seq; negative if the table has none.
func (b *book) lookup(src []byte) int {
	word := binary.LittleEndian.Uint64(src)
	at := int(atomic.LoadUint32(&b.table[hash(word, b.shift)])) - 1
	if at+seq > len(b.text) || at >= 0 && binary.LittleEndian.Uint64(b.text[at:]) != word {
		return -1
	}
	return at
}

// common returns how many bytes two strings share at their beginning.
func common(a, b []byte) int {
	n := 0
	for len(a) >= n+8 && len(b) >= n+8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func hash(word uint64, shift int) uint64 { return word * 0x9E3779B97F4A7C15 >> shift }

// begin starts a dictionary.
func (p *Packer) begin() {
	if p.generations == nil {
		p.generations = new(atomic.Int32)
	}
	p.generations.Add(1)
	p.dict = &Dictionary{}
	runtime.AddCleanup(p.dict, func(n *atomic.Int32) { n.Add(-1) }, p.generations)
	p.used, p.saved = 0, 0
	p.grow(minDictionary)
}

// grow gives the dictionary room for so many bytes.
func (p *Packer) grow(size int) {
	text := make([]byte, size)
	if old := p.dict.text.Load(); old != nil {
		copy(text, (*old)[:p.used])
	}
	p.dict.text.Store(&text)
	p.table = make([]uint32, size/stride)
	p.enter(0)
}

// enter puts what the dictionary has from a place on into the table, and makes a book of it.
func (p *Packer) enter(from int) {
	b := &book{dict: p.dict, text: (*p.dict.text.Load())[:p.used], table: p.table, shift: 64 - bits.Len(uint(len(p.table)-1))}
	for i := from; i+seq <= p.used; i += stride {
		atomic.StoreUint32(&b.table[hash(binary.LittleEndian.Uint64(b.text[i:]), b.shift)], uint32(i+1))
	}
	p.now.Store(b)
}

// add puts a string into the dictionary and returns its offset, or reports that this would
// not pay.
func (p *Packer) add(src []byte) (at int, ok bool) {
	room := len(*p.dict.text.Load())
	switch {
	case len(src) < seq || len(src) > maxAdded:
		return 0, false
	case p.used >= warmUp && p.saved < p.used:
		return 0, false
	case p.used+len(src) <= room:
	case room < maxDictionary:
		size := room
		for p.used+len(src) > size {
			size *= 2
		}
		p.grow(min(size, maxDictionary))
	case p.saved >= 4*maxDictionary && p.generations.Load() < maxGenerations:
		p.begin()
		return p.add(src)
	default:
		return 0, false
	}
	at = p.used
	text := *p.dict.text.Load()
	p.used += copy(text[at:], src)
	p.enter(at)
	return at, true
}
