package jsondec

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
)

// DefaultSharing is the size of a [Sharing] by default.
const DefaultSharing = 16 << 20

// Sub-objects of more than maxShared bytes are seldom equal, and cost to compare.
const (
	maxShared  = 4 << 10
	shareWays  = 4
	bytesASlot = 1 << 10 // of the limit; most sub-objects are smaller
)

// Sharing is a bounded table of sub-objects that repeat: the volumes, tolerations,
// resources and labels that all pods of one template have alike. Those with equal
// bytes are decoded once. Their bytes are compared in full. Several decoders may use
// one table; all methods may be called from any number of goroutines.
//
// A sub-object is taken in when its bytes come for the second time, so that those that
// come once cost a hash and four bytes. The table forgets: when it is full, what is
// found least goes.
//
// Whatever comes from a table belongs to several objects, and no reader may write to it.
// What reading may write to is never shared (O02): see [intern.Volatile].
type Sharing struct {
	seed  maphash.Seed
	limit int64
	mask  uint64
	sets  []shareSet
	size  atomic.Int64

	mu   sync.Mutex // guards hand, and all changes of held
	hand int        // the set at which the next eviction begins
}

type shareSet struct {
	held [shareWays]atomic.Pointer[shared]
	seen [shareWays]atomic.Uint32 // parts of hashes that came once; zero for none
}

// shared is one sub-object. Exactly one of value and ptr holds it.
type shared struct {
	owner any    // what decoded it: equal bytes mean different things to others
	bytes string // what it was decoded from
	used  atomic.Bool

	value any            // an unstructured value
	ptr   unsafe.Pointer // what a pointer or map field holds, or where a slice begins
	n     int            // length of that slice
	size  int64          // of all that was allocated for it, strings apart
}

// cost estimates what the table keeps alive for e: its bytes, as many again for
// strings, the value and the entry.
func (e *shared) cost() int64 { return 256 + 2*int64(len(e.bytes)) + e.size }

// NewSharing returns a table that keeps about limit bytes alive, its own included.
// Defaults to [DefaultSharing] for zero or less.
func NewSharing(limit int) *Sharing {
	if limit <= 0 {
		limit = DefaultSharing
	}
	n := 1
	for n*2*shareWays*bytesASlot <= limit {
		n *= 2
	}
	return &Sharing{
		seed: maphash.MakeSeed(), limit: int64(limit), mask: uint64(n - 1), sets: make([]shareSet, n),
	}
}

// Size estimates how many bytes the table keeps alive.
func (t *Sharing) Size() int { return int(t.size.Load()) }

// find returns the sub-object that owner decoded from equal bytes before; or a ticket
// to keep one, which is zero for bytes that have not come before.
func (t *Sharing) find(owner any, b []byte) (found *shared, ticket uint64) {
	if len(b) > maxShared {
		return nil, 0
	}
	h := maphash.Bytes(t.seed, b)
	set := &t.sets[h&t.mask]
	for i := range set.held {
		if e := set.held[i].Load(); e != nil && e.bytes == string(b) && e.owner == owner {
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e, 0
		}
	}
	mark := uint32(h>>32) | 1
	for i := range set.seen {
		if set.seen[i].Load() == mark {
			return nil, h | 1<<63
		}
	}
	set.seen[h>>60%shareWays].Store(mark)
	return nil, 0
}

// shared looks for the value of token t, which owner would decode, unless it is volatile.
// Where it is found, it counts as allocated here: an object around it keeps it alive.
func (s *state) shared(owner any, t uint32, volatile bool) (found *shared, ticket uint64) {
	if s.share == nil || volatile {
		return nil, 0
	}
	found, ticket = s.share.find(owner, s.source(t))
	if found != nil {
		s.allocated += found.size
	}
	return found, ticket
}

// progress is how far a state had come when the decoding of a value began.
type progress struct {
	allocated int64
	volatile  int
}

func (s *state) progress() progress { return progress{s.allocated, s.volatile} }

// keep offers a decoded value to the table with the ticket that shared gave, unless there
// is something in it that its readers may write to (O02): see [intern.Volatile].
func (s *state) keep(ticket uint64, before progress, e *shared, t uint32) {
	if s.volatile != before.volatile {
		return
	}
	e.size = s.allocated - before.allocated
	s.share.keep(ticket, e, s.source(t))
}

// keep takes in a sub-object with the ticket that find gave for its bytes.
func (t *Sharing) keep(ticket uint64, e *shared, b []byte) {
	e.bytes = string(b)
	if e.cost() > t.limit {
		return // such as a few bytes that stand for a thousand empty structs
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := &t.sets[ticket&t.mask]
	at := -1
	for i := range set.held {
		old := set.held[i].Load()
		if old == nil {
			at = i
			break
		}
		if old.bytes == e.bytes && old.owner == e.owner {
			return // another goroutine was faster
		}
		// The first that was not used since the last time.
		if !old.used.Swap(false) && at < 0 {
			at = i
		}
	}
	t.replace(set, max(at, 0), e)
	t.shrink(e)
}

// shrink makes room. What has been found since the hand passed last is spared, but not
// for ever: readers might find things as fast as the hand turns.
func (t *Sharing) shrink(but *shared) {
	for patience := 2 * len(t.sets); t.size.Load() > t.limit; patience-- {
		t.hand = (t.hand + 1) % len(t.sets)
		set := &t.sets[t.hand]
		for i := range set.held {
			old := set.held[i].Load()
			if old != nil && old != but && (!old.used.Swap(false) || patience < 0) {
				t.replace(set, i, nil)
			}
		}
	}
}

// replace puts e, which may be nil, into a place. The caller holds mu.
func (t *Sharing) replace(set *shareSet, i int, e *shared) {
	change := int64(0)
	if old := set.held[i].Swap(e); old != nil {
		change -= old.cost()
	}
	if e != nil {
		change += e.cost()
	}
	t.size.Add(change)
}
