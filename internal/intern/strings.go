package intern

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// MaxLength is the length in bytes up to which a string is shared. Longer ones
	// are seldom equal, and would cost as much to compare as to copy.
	MaxLength = 128

	// DefaultLimit is the number of strings that a table holds by default:
	// at most 3 MB with all that is needed to find them.
	DefaultLimit = 1 << 14

	ways = 4
)

// Strings is a bounded table of strings that repeat. The zero Strings and the nil one
// know nothing and copy everything; use [NewStrings]. All methods may be called from
// any number of goroutines.
//
// It is set-associative: the hash of a string names a set of four places, and a string
// is looked for nowhere else. There are no locks; a string that is found costs a hash,
// a load and a comparison. What a lost race costs is one copy more.
//
// A string is taken in when it comes for the second time, and found from the third on,
// so that names and UIDs, which come once, leave only four bytes of their hash behind and
// displace nothing. Of a full
// set the string that was asked for least goes. A map under a lock was tried
// first: it is slower on two cores, and its eviction needs a list besides.
type Strings struct {
	seed maphash.Seed
	mask uint64
	ways int // of each set, fewer than four in a table smaller than that
	sets []set

	taken     atomic.Uint64
	displaced atomic.Uint64
}

// set is one cache line: the strings whose hashes end alike.
type set struct {
	held [ways]atomic.Pointer[string]
	seen [ways]atomic.Uint32 // parts of hashes that came once; zero for none
	uses [ways]atomic.Uint32 // a mark, see useBits
}

// A string's mark is a part of its hash, which saves a look at most of those that are
// not meant, and in the lowest bits how often the string was found lately.
const (
	useBits = 2
	maxUses = 1<<useBits - 1
)

// NewStrings returns a table of at most limit strings of at most [MaxLength] bytes.
// A limit of zero or less is [DefaultLimit]; other limits above four are rounded down
// to a power of two.
func NewStrings(limit int) *Strings {
	if limit <= 0 {
		limit = DefaultLimit
	}
	n := 1
	for n*2*ways <= limit {
		n *= 2
	}
	return &Strings{
		seed: maphash.MakeSeed(),
		mask: uint64(n - 1),
		ways: min(limit, ways),
		sets: make([]set, n),
	}
}

// Bytes returns a string equal to b: the table's own where b repeats, else a copy. It
// never keeps b.
func (t *Strings) Bytes(b []byte) string {
	if s, ok := t.Lookup(b); ok {
		return s
	}
	return string(b)
}

// Lookup returns the table's string equal to b if it holds one, for callers that copy
// others in their own way, and that want to know whether asking pays. It never keeps b.
func (t *Strings) Lookup(b []byte) (string, bool) {
	if len(b) <= 1 {
		return string(b), true // the runtime has these already
	}
	if t == nil || len(b) > MaxLength || len(t.sets) == 0 {
		return "", false
	}
	h := maphash.Bytes(t.seed, b)
	set := &t.sets[h&t.mask]
	// The lower bits of the hash chose the set; these are others, and never zero.
	mark := uint32(h>>32)&^maxUses | 1<<useBits
	for i := range set.held[:t.ways] {
		n := set.uses[i].Load()
		if n&^maxUses != mark {
			continue
		}
		if p := set.held[i].Load(); p != nil && *p == string(b) {
			// At maxUses nothing is written, so that busy strings cause no traffic
			// between cores.
			if n&maxUses < maxUses {
				set.uses[i].Store(n + 1)
			}
			return *p, true
		}
	}
	for i := range set.seen {
		if set.seen[i].Load() == mark {
			set.seen[i].Store(0)
			t.take(set, mark, string(b))
			return "", false
		}
	}
	set.seen[(h>>28)%ways].Store(mark)
	return "", false
}

// take puts s into the set, in an empty place or in that of the least used string.
// The others age, so that what was busy long ago gives way in the end. Of two that race
// for a place one may end up under the other's mark, and is not found until it comes in
// anew.
func (t *Strings) take(set *set, mark uint32, s string) {
	at, least := 0, uint32(maxUses+1)
	for i := range set.held[:t.ways] {
		if set.held[i].Load() == nil {
			at = i
			break
		}
		if n := set.uses[i].Load() & maxUses; n < least {
			at, least = i, n
		}
	}
	old := set.held[at].Swap(&s)
	set.uses[at].Store(mark)
	t.taken.Add(1)
	if old == nil {
		return
	}
	t.displaced.Add(1)
	for i := range set.uses[:t.ways] {
		if n := set.uses[i].Load(); i != at && n&maxUses > 0 {
			set.uses[i].Store(n - 1)
		}
	}
}

// Stats says what a table holds and how much of it has changed hands.
type Stats struct {
	// Strings is how many strings are held, Limit how many can be.
	Strings, Limit int
	// Bytes is the length of the strings held, together.
	Bytes int
	// Taken counts the strings that were ever taken in; Displaced those of them that
	// had to give way. A Displaced that keeps growing means that the table is too
	// small for what repeats.
	Taken, Displaced uint64
}

// Stats counts what is held now. It walks the whole table; strings that come and go
// meanwhile may or may not be counted.
func (t *Strings) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	st := Stats{Limit: len(t.sets) * t.ways, Taken: t.taken.Load(), Displaced: t.displaced.Load()}
	for i := range t.sets {
		for j := range t.sets[i].held {
			if p := t.sets[i].held[j].Load(); p != nil {
				st.Strings++
				st.Bytes += len(*p)
			}
		}
	}
	return st
}
