package intern

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	// DefaultPartsLimit is how many bytes a [Parts] holds by default.
	DefaultPartsLimit = 8 << 20

	partOverhead = int(unsafe.Sizeof(Part{})) + 32
	partTypical  = 1 << 9 // bytes of a part, from which the number of places follows
)

// Parts is a bounded table of decoded parts of objects, found by the bytes that they were
// decoded from: the labels, tolerations and volumes that all pods of one template have in
// common. Any number of decoders and goroutines may use one table.
//
// A part is taken in when its bytes come for the second time. It is found only if its
// [Key] and all of its bytes are equal; a hash collision costs time and nothing else.
//
// Every object that a part was found for shares it. After Keep no decoder and no reader
// may write to what it points to, and a decoder must not keep a part with something in it
// that reading may write to (O02): see [Volatile].
//
// The limit counts the bytes of the parts and what was allocated to decode them. When it
// is reached, parts that have not been used recently are removed. A part larger than a
// sixteenth of the limit is never taken in.
type Parts struct {
	table[Part]
	limit int

	mu   sync.Mutex // held to change the parts of a set, and the table; guards hand
	hand int        // the set at which the next eviction begins

	held  atomic.Int64
	count atomic.Int64
}

// Key distinguishes parts that must not be shared although their bytes are equal, because
// decoders give the bytes different meanings: values of different types, or with different
// fields dropped or decoded. The pointers are only compared.
type Key struct{ Type, Drop, Only unsafe.Pointer }

// Part is one decoded part. The decoder that fills it in writes to it until Keep; nothing
// writes to it afterwards, except Use.
type Part struct {
	Key  Key
	Data unsafe.Pointer // what a pointer or map field holds, or the first element of a slice
	Len  int            // of a slice
	Cost int            // bytes allocated for Data; Keep adds those of the Part

	raw  string
	used atomic.Bool
}

// Matches reports whether the part was decoded from these bytes. It does not compare keys.
func (p *Part) Matches(raw []byte) bool { return p.raw == string(raw) }

// Use notes that the part was used without a lookup, so that the table does not remove it.
func (p *Part) Use() {
	if !p.used.Load() { // mostly nothing to write, so no traffic between cores
		p.used.Store(true)
	}
}

// Ticket permits a part to be kept. The zero Ticket does not.
type Ticket uint64

// NewParts returns a table that holds at most limit bytes, besides some hundredths of it
// for the table itself. A limit of zero or less is [DefaultPartsLimit].
func NewParts(limit int) *Parts {
	if limit <= 0 {
		limit = DefaultPartsLimit
	}
	t := &Parts{limit: limit}
	t.init(limit / partTypical)
	return t
}

// Limit returns how many bytes the table may hold.
func (t *Parts) Limit() int { return t.limit }

// Lookup returns the part with this key and these bytes. If there is none and the bytes
// have come before, it returns a ticket to keep the part once it is decoded.
func (t *Parts) Lookup(key Key, raw []byte) (*Part, Ticket) {
	hash := t.hash(raw)
	set, mark := t.at(hash)
	for i := set.next(mark, 0); i < ways; i = set.next(mark, i+1) {
		if p := set.held[i].Load(); p != nil && p.raw == string(raw) && p.Key == key {
			set.use(i)
			return p, 0
		}
	}
	seen, small := t.again(set, mark)
	switch {
	case seen:
		return nil, Ticket(hash)
	case small:
		t.mu.Lock()
		t.grow(func(p *Part) string { return p.raw })
		t.mu.Unlock()
	}
	return nil, 0
}

// Keep takes in a part that was decoded from raw, with the ticket that Lookup returned for
// these bytes.
func (t *Parts) Keep(ticket Ticket, p *Part, raw []byte) {
	p.Cost += len(raw) + partOverhead
	if p.Cost > t.limit/16 {
		return // such as a few bytes that stand for a thousand empty structs
	}
	p.raw = string(raw)
	t.mu.Lock()
	defer t.mu.Unlock()
	set, mark := t.at(uint64(ticket))
	for i := set.next(mark, 0); i < ways; i = set.next(mark, i+1) {
		if old := set.held[i].Load(); old != nil && old.raw == p.raw && old.Key == p.Key {
			return // another goroutine was faster
		}
	}
	for t.held.Load()+int64(p.Cost) > int64(t.limit) {
		t.evict()
	}
	noteUses(set)
	if old := t.put(set, mark, p); old != nil {
		t.account(old, -1)
	}
	t.account(p, 1)
}

// noteUses counts what [Part.Use] noted as a recent use.
func noteUses(s *set[Part]) {
	for i := range s.held {
		if p := s.held[i].Load(); p != nil && p.used.Load() {
			p.used.Store(false)
			s.uses[i].Store(s.uses[i].Load() | maxUses)
		}
	}
}

// evict ages the parts of one set, and removes those that have not been used recently.
// Repeated calls empty the table.
func (t *Parts) evict() {
	sets := *t.sets.Load()
	set := &sets[t.hand]
	t.hand = (t.hand + 1) % len(sets)
	noteUses(set)
	for i := range set.held {
		if n := set.uses[i].Load(); n&maxUses > 0 {
			set.uses[i].Store(n - 1)
		} else if old := set.held[i].Swap(nil); old != nil {
			t.displaced.Add(1)
			t.account(old, -1)
		}
	}
}

func (t *Parts) account(p *Part, sign int) {
	t.held.Add(int64(sign * p.Cost))
	t.count.Add(int64(sign))
}

// PartsStats describes what a table holds and how much of it was replaced.
type PartsStats struct {
	// Parts is how many parts are held.
	Parts int
	// Bytes is what they cost, and Limit what they may.
	Bytes, Limit int
	// Taken counts the parts that were ever taken in; Displaced those of them that were
	// removed for others. A Displaced that keeps growing means that the limit is too low
	// for what repeats.
	Taken, Displaced uint64
}

// Stats describes what the table holds now.
func (t *Parts) Stats() PartsStats {
	return PartsStats{
		Parts: int(t.count.Load()), Bytes: int(t.held.Load()), Limit: t.limit,
		Taken: t.taken.Load(), Displaced: t.displaced.Load(),
	}
}
