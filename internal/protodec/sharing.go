package protodec

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	// DefaultSharingLimit is the memory that a [Sharing] may hold by default.
	DefaultSharingLimit = 8 << 20

	partWays     = 4
	partUseBits  = 2
	partMaxUses  = 1<<partUseBits - 1
	partOverhead = int(unsafe.Sizeof(part{})) + 32
	partTypical  = 1 << 9 // bytes of a part, from which the number of places follows

	smallNumbers = 1 << 10

	recallShare = 32 // what a state may hold besides is the limit divided by this
)

// Sharing is a bounded table of parts of objects that were decoded before, by their
// bytes. Any number of decoders, of the same and of other types, and of goroutines may
// use one.
//
// Any message behind a pointer, any repeated field and any map may be a part, unless there
// is something in it that its readers may write to (O02): see [intern.Volatile]. A part is
// found by the hash of its bytes, and used only if type, dropped fields and all of its
// bytes are the same: a collision costs time and nothing else. It is taken in when it
// comes for the second time, so that what comes once leaves only four bytes behind.
//
// The limit counts the bytes of the parts and what was allocated to decode them. It
// holds whatever is decoded; parts that have not been used lately go first, and a part
// bigger than a sixteenth of the limit is never taken in.
type Sharing struct {
	seed  maphash.Seed
	mask  uint64
	sets  []partSet
	limit int

	mu   sync.Mutex // held to change the parts of a set; guards hand
	hand int        // where to look for the next part to displace

	held      atomic.Int64
	parts     atomic.Int64
	taken     atomic.Uint64
	displaced atomic.Uint64

	numbers *numbers
}

// numbers is what pointers to the numbers that most objects have point to. It stands
// apart so that an object does not keep the table alive.
type numbers struct {
	int32s [smallNumbers]int32
	int64s [smallNumbers]int64
	bools  [2]bool
}

type partSet struct {
	held [partWays]atomic.Pointer[part]
	seen [partWays]atomic.Uint32 // parts of hashes that came once; zero for none
	uses [partWays]atomic.Uint32 // part of the hash, and how often it was found lately
}

// part is one decoded part. It never changes, except for the mark that it is in use.
type part struct {
	key  unitKey
	raw  string
	data unsafe.Pointer // the message, the first element, or the map
	len  int            // of a repeated field
	cost int
	// used says that a state has used the part without asking the table, which so
	// does not know of it.
	used atomic.Bool
}

// use notes that the part is used. Most times there is nothing to write, so that
// busy parts cause no traffic between cores.
func (p *part) use() {
	if !p.used.Load() {
		p.used.Store(true)
	}
}

// NewSharing returns a table that holds at most limit bytes, beside the few hundredths
// of it for the table as such. A limit of zero or less is [DefaultSharingLimit].
func NewSharing(limit int) *Sharing {
	if limit <= 0 {
		limit = DefaultSharingLimit
	}
	n := 1
	for n*2*partWays*partTypical <= limit {
		n *= 2
	}
	t := &Sharing{seed: maphash.MakeSeed(), mask: uint64(n - 1), sets: make([]partSet, n), limit: limit, numbers: new(numbers)}
	for i := range smallNumbers {
		t.numbers.int32s[i], t.numbers.int64s[i] = int32(i), int64(i)
	}
	t.numbers.bools[1] = true
	return t
}

// lookup returns the part with these bytes, or says whether they came before.
func (t *Sharing) lookup(key unitKey, raw []byte) (known *part, hash uint64, again bool) {
	hash = maphash.Bytes(t.seed, raw)
	set := &t.sets[hash&t.mask]
	mark := partMark(hash)
	for i := range set.held {
		n := set.uses[i].Load()
		if n&^partMaxUses != mark {
			continue // saves a look at most of those that are not meant
		}
		if p := set.held[i].Load(); p != nil && p.raw == string(raw) && p.key == key {
			if n&partMaxUses < partMaxUses {
				set.uses[i].Store(n + 1)
			}
			return p, hash, false
		}
	}
	for i := range set.seen {
		if set.seen[i].Load() == mark {
			return nil, hash, true
		}
	}
	set.seen[(hash>>28)%partWays].Store(mark)
	return nil, hash, false
}

// partMark returns bits of the hash other than those that chose the set, never zero,
// with those that count uses clear.
func partMark(hash uint64) uint32 { return uint32(hash>>32)&^partMaxUses | 1<<partUseBits }

// put takes a part in.
func (t *Sharing) put(hash uint64, p *part) {
	if p.cost > t.limit/16 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := &t.sets[hash&t.mask]
	at, least := 0, uint32(partMaxUses+1)
	for i := range set.held {
		old := set.held[i].Load()
		if old == nil {
			at = i
			break
		}
		if old.key == p.key && old.raw == p.raw {
			return // another goroutine was faster
		}
		n := set.uses[i].Load() & partMaxUses
		if old.used.Load() {
			n = partMaxUses
		}
		if n < least {
			at, least = i, n
		}
	}
	t.remove(set, at)
	for t.held.Load()+int64(p.cost) > int64(t.limit) {
		t.displace()
	}
	set.held[at].Store(p)
	set.uses[at].Store(partMark(hash))
	t.held.Add(int64(p.cost))
	t.parts.Add(1)
	t.taken.Add(1)
}

// displace makes the parts of one set age, and removes those that were not used lately.
// Called often enough it empties the table.
func (t *Sharing) displace() {
	set := &t.sets[t.hand]
	t.hand = (t.hand + 1) % len(t.sets)
	for i := range set.held {
		n := set.uses[i].Load()
		switch p := set.held[i].Load(); {
		case p != nil && p.used.Load():
			p.used.Store(false)
		case n&partMaxUses > 0:
			set.uses[i].Store(n - 1)
		default:
			t.remove(set, i)
		}
	}
}

func (t *Sharing) remove(set *partSet, i int) {
	if old := set.held[i].Swap(nil); old != nil {
		t.held.Add(-int64(old.cost))
		t.parts.Add(-1)
		t.displaced.Add(1)
	}
}

// SharingStats says what a table holds and how much of it has changed hands.
type SharingStats struct {
	// Parts is how many parts are held.
	Parts int
	// Bytes is what they cost, and Limit what they may.
	Bytes, Limit int
	// Taken counts the parts that were ever taken in; Displaced those of them that had
	// to give way. A Displaced that keeps growing means that the limit is too low for
	// what repeats.
	Taken, Displaced uint64
}

// Stats says what the table holds now.
func (t *Sharing) Stats() SharingStats {
	if t == nil {
		return SharingStats{}
	}
	return SharingStats{
		Parts: int(t.parts.Load()), Bytes: int(t.held.Load()), Limit: t.limit,
		Taken: t.taken.Load(), Displaced: t.displaced.Load(),
	}
}

// ticket is the right to put a part into the table once it is decoded.
type ticket struct {
	valid bool
	hash  uint64
	outer scope
}

// find looks for a part, and opens a scope for it where it is to be taken in.
func (s *state) find(f *field, raw []byte) (*part, ticket) {
	turn := s.units[f.unit].next(s.objects)
	// The unit is this field's alone, so that the bytes are all there is to compare.
	if p := turn.last; p != nil && p.raw == string(raw) {
		p.use()
		turn.note(true)
		s.cost += p.cost
		return p, ticket{}
	}
	if !turn.worth() {
		return nil, ticket{}
	}
	known, hash, again := s.share.lookup(f.key, raw)
	turn.note(known != nil)
	if known != nil {
		s.remember(turn, known)
		s.cost += known.cost // it is kept alive by whatever it becomes part of
		return known, ticket{}
	}
	if !again {
		return nil, ticket{}
	}
	return nil, ticket{valid: true, hash: hash, outer: s.open()}
}

// remember has the part tried first next time. What a state holds is alive also when
// the table has let it go, so there is a limit to it.
func (s *state) remember(turn *turn[*part], p *part) {
	cost := p.cost
	if turn.last != nil {
		cost -= turn.last.cost
	}
	if s.recall+cost <= s.share.limit/recallShare {
		s.recall += cost
		turn.last = p
	}
}

// keep ends what find began: data is the part, of n elements.
func (s *state) keep(f *field, t ticket, raw []byte, data unsafe.Pointer, n int, err error) {
	if !t.valid {
		return
	}
	inner := s.close(t.outer)
	if err != nil || inner.volatile {
		return
	}
	s.share.put(t.hash, &part{
		key: f.key, raw: string(raw), data: data, len: n,
		cost: inner.cost + len(raw) + partOverhead,
	})
}

// The numbers that pointers point to, shared where they are small and sharing is on.

func (s *state) int32(v int32) *int32 {
	if s.share != nil && v >= 0 && v < smallNumbers {
		return &s.share.numbers.int32s[v]
	}
	s.cost += 4
	p := new(int32) // not &v, which would be allocated in any case
	*p = v
	return p
}

func (s *state) int64(v int64) *int64 {
	if s.share != nil && v >= 0 && v < smallNumbers {
		return &s.share.numbers.int64s[v]
	}
	s.cost += 8
	p := new(int64)
	*p = v
	return p
}

func (s *state) bool(v bool) *bool {
	if s.share == nil {
		s.cost++
		p := new(bool)
		*p = v
		return p
	}
	if v {
		return &s.share.numbers.bools[1]
	}
	return &s.share.numbers.bools[0]
}
