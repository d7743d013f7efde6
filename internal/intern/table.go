package intern

import (
	"hash/maphash"
	"sync/atomic"
)

// table is what [Strings] and [Parts] have in common: a bounded, set-associative table of
// entries that are found by the hash of their bytes.
//
// The hash of an entry selects a set of four places, and an entry is looked for nowhere
// else. Lookups take no lock: one that finds its entry costs a hash, a load and a
// comparison, and a lost race costs one copy. A map under a lock was slower on two cores,
// and its eviction needs a list besides.
//
// An entry is taken in when its bytes come for the second time, so that names and UIDs,
// which come once, leave four bytes of their hash and displace nothing. In a full set a
// new entry replaces the least used.
//
// A table begins small, because a process has many and most of them see few objects. When it has
// forgotten a quarter as many marks and entries as it has places, one that is four times as large replaces it.
type table[E any] struct {
	seed      maphash.Seed
	most      int // sets that it may have
	sets      atomic.Pointer[[]set[E]]
	forgotten atomic.Int64 // marks and entries, since sets was made

	taken     atomic.Uint64
	displaced atomic.Uint64
}

const ways = 4

// set is one cache line: the entries whose hashes end alike.
type set[E any] struct {
	held [ways]atomic.Pointer[E]
	seen [ways]atomic.Uint32 // marks of bytes that came once; zero for none
	uses [ways]atomic.Uint32 // of each entry its mark, and in the lowest bits its recent uses
}

// A mark is a part of the hash that did not select the set. Comparing marks first avoids
// reading most of the entries that do not match.
const (
	useBits = 2
	maxUses = 1<<useBits - 1
)

// leastSets is how many sets a table begins with.
const leastSets = 64

// init gives the table the largest number of places that is a power of two and not above the limit, and four at
// least, as what it may grow to.
func (t *table[E]) init(limit int) {
	t.seed, t.most = maphash.MakeSeed(), 1
	for t.most*2*ways <= limit {
		t.most *= 2
	}
	sets := make([]set[E], min(t.most, leastSets))
	t.sets.Store(&sets)
}

// grow replaces the table by a larger one with the same entries, unless another goroutine was faster. raw returns the
// bytes of an entry.
func (t *table[E]) grow(raw func(*E) string) {
	old := t.sets.Load()
	if !t.small(len(*old)) {
		return
	}
	sets := make([]set[E], min(t.most, 4*len(*old)))
	for i := range *old {
		from := &(*old)[i]
		for j := range from.held {
			if e := from.held[j].Load(); e != nil { // its place is free, because a set gets entries of one old set only
				to := &sets[maphash.String(t.seed, raw(e))&uint64(len(sets)-1)]
				to.held[j].Store(e)
				to.uses[j].Store(from.uses[j].Load())
			}
		}
	}
	if t.sets.CompareAndSwap(old, &sets) {
		t.forgotten.Store(0)
	}
}

// small reports whether a table of n sets should grow.
func (t *table[E]) small(n int) bool { return n < t.most && t.forgotten.Load() >= int64(n) }

// hash returns the hash of b, never zero.
func (t *table[E]) hash(b []byte) uint64 { return maphash.Bytes(t.seed, b) | 1<<63 }

// at returns the set and the mark of a hash. A mark is never zero.
func (t *table[E]) at(hash uint64) (*set[E], uint32) {
	sets := *t.sets.Load()
	return &sets[hash&uint64(len(sets)-1)], uint32(hash>>32) &^ maxUses
}

// next returns the first place from i on that has the mark, or [ways].
func (s *set[E]) next(mark uint32, i int) int {
	for i < ways && s.uses[i].Load()&^maxUses != mark {
		i++
	}
	return i
}

// use counts a use of the entry at i. At maxUses nothing is written, so that busy entries
// cause no traffic between cores.
func (s *set[E]) use(i int) {
	if n := s.uses[i].Load(); n&maxUses < maxUses {
		s.uses[i].Store(n + 1)
	}
}

// again reports whether bytes with the mark have come once before, and notes them if not:
// in an empty place if there is one, so that a table with room forgets nothing. small means that the table
// should grow.
func (t *table[E]) again(s *set[E], mark uint32) (seen, small bool) {
	at, full := mark>>useBits%ways, true
	for i := range s.seen {
		switch s.seen[i].Load() {
		case mark:
			s.seen[i].Store(0)
			return true, false
		case 0:
			at, full = uint32(i), false
		}
	}
	s.seen[at].Store(mark)
	n := len(*t.sets.Load())
	if full && n < t.most {
		t.forgotten.Add(1)
	}
	return false, t.small(n)
}

// put stores e in an empty place or in that of the least used entry, which it returns.
// The others then age, so that an entry that is no longer used is replaced in the end. If
// two calls race for a place, one entry may end up under the other's mark and is not
// found until it is taken in again.
func (t *table[E]) put(s *set[E], mark uint32, e *E) (old *E) {
	at, least := 0, uint32(maxUses+1)
	for i := range s.held {
		if s.held[i].Load() == nil {
			at = i
			break
		}
		if n := s.uses[i].Load() & maxUses; n < least {
			at, least = i, n
		}
	}
	old = s.held[at].Swap(e)
	s.uses[at].Store(mark)
	t.taken.Add(1)
	if old == nil {
		return nil
	}
	t.displaced.Add(1)
	t.forgotten.Add(1)
	for i := range s.uses {
		if n := s.uses[i].Load(); i != at && n&maxUses > 0 {
			s.uses[i].Store(n - 1)
		}
	}
	return old
}
