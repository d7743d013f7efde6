package delta

import (
	"maps"
	"time"

	"github.com/tarnproject/tarn/object"
)

// log is a sequence of deltas in the order in which they came, with the chain of
// each key's deltas through it. What is pending is one log, what is in flight
// another: a batch is taken by swapping the two, and nothing is copied.
//
// The chains are made on demand, by index, for the part of the log that has none
// yet. A consumer of batches whose producer only adds and updates never pays for
// them. A Replace that is not expanded is one delta of the log and in no chain; fate
// determines its effect on a key.
//
// Pop takes deltas out of the middle. They leave holes, which are zero deltas; the
// hole at the front grows until slide moves the rest down, so that each delta is
// moved at most once on average and no hole outlives the keys that were pending
// before it. Positions count from the log's beginning, holes included, and go on
// through a slide; they wrap.
//
// Rejected: a slice of deltas per key, as in client-go. It is simpler, and it allocates
// for each key that becomes pending and loses the order among the deltas of different
// keys, in which a batch hands them over.
type log[T any] struct {
	deltas []object.Change[T]
	links  []link // of the first len(links) deltas; the others have zero links
	head   int    // nothing but holes before it
	live   int    // deltas that are not holes
	// initial counts the live deltas that belong to the first Replace.
	initial int

	lists []wholeList[T] // un-exploded Replaces, in order
	bad   bool           // a delta may be Quarantined

	// keys has the chain of each key in deltas[:indexed].
	keys    map[object.Key]chain
	indexed int
	start   uint32 // position of deltas[0]

	age   age
	high  int // how long the log has been since the last reset, as slides saw it
	slack int // resets in a row that found most of what is allocated unused
	idle  int // deltas that slides in a row went over and found that
}

type link struct {
	gap     uint32 // how far the next delta of the same key is; 0: there is none
	initial bool
}

// wholeList is a Replace that is still one delta.
type wholeList[T any] struct {
	*object.List[T]
	pos uint32
	// during: it came while what is now in flight, or in FIFO.before, was in flight.
	during bool
	keys   map[object.Key]int // made when first asked for; see find
	// nameless: an undecodable item has no key, so any key may be listed.
	nameless bool
}

// age measures how long the oldest delta has been waiting, without reading the clock for
// each. It knows when the oldest generation of deltas began, and the one after
// it; when the head has passed the first, the second takes its place and the next
// delta to come begins another.
type age struct {
	oldest  time.Duration // all times are since the FIFO was made
	next    time.Duration
	nextPos uint32
	hasNext bool
}

const (
	keepDeltas  = 1024 // allocations up to this many deltas are kept for ever
	keepResets  = 8    // larger ones until this many resets in a row used little
	slideDeltas = 64   // holes at the front before it is worth to slide
	scanDeltas  = 8    // logs up to this long are not worth an index
)

func (l *log[T]) pos(i int) uint32 { return l.start + uint32(i) }
func (l *log[T]) at(p uint32) int  { return int(p - l.start) }

// holes reports whether there are holes behind the head.
func (l *log[T]) holes() bool { return l.live != len(l.deltas)-l.head }

// isInitial reports whether delta i belongs to the first Replace.
func (l *log[T]) isInitial(i int) bool { return i < len(l.links) && l.links[i].initial }

// link returns the link of a delta, to be changed.
func (l *log[T]) link(i int) *link {
	for len(l.links) <= i {
		l.links = append(l.links, link{})
	}
	return &l.links[i]
}

// folded reports whether the log may have changes that are for batches alone.
func (l *log[T]) folded() bool { return len(l.lists) > 0 || l.bad }

// add appends a delta.
func (l *log[T]) add(d *object.Change[T], initial bool) {
	l.bad = l.bad || d.Kind == object.Quarantined
	*l.extend() = *d
	i := len(l.deltas) - 1
	if initial {
		l.link(i).initial = true
		l.initial++
	}
	if d.List != nil {
		l.lists = append(l.lists, wholeList[T]{List: d.List, pos: l.pos(i)})
	}
}

// extend appends a zero delta, to be filled in.
func (l *log[T]) extend() *object.Change[T] {
	n := len(l.deltas)
	if n < cap(l.deltas) {
		l.deltas = l.deltas[:n+1] // what is behind the end is always zero
	} else {
		l.deltas = append(l.deltas, object.Change[T]{})
	}
	l.live++
	return &l.deltas[n]
}

// merge reports whether a Deleted is one too many. Of two different states it is not: only the
// consumer knows which of them is stale. None of the first Replace ever is: when that comes, nothing
// has been deleted yet.
func (l *log[T]) merge(d *object.Change[T]) bool {
	_, i, ok := l.lookup(d.Key)
	if !ok || l.deltas[i].Kind != object.Deleted || l.listAfter(i) || differ(&l.deltas[i], d) {
		return false
	}
	if l.deltas[i].Unknown {
		l.deltas[i] = *d
	}
	return true
}

// listAfter reports whether an un-exploded list comes after delta i.
func (l *log[T]) listAfter(i int) bool {
	n := len(l.lists)
	return n > 0 && l.at(l.lists[n-1].pos) > i
}

// takeFirst moves all deltas of the key that has been pending longest to dst.
// There must be no lists, and at least one delta.
func (l *log[T]) takeFirst(dst *log[T]) {
	first, key := l.head, l.deltas[l.head].Key
	if len(l.deltas)-l.head <= scanDeltas && len(l.keys) == 0 {
		for i := first; i < len(l.deltas); i++ {
			if l.deltas[i].Kind != 0 && l.deltas[i].Key == key {
				l.move(i, dst)
			}
		}
	} else {
		l.index()
		delete(l.keys, key)
		for i, gap := first, 1; gap > 0; i += gap {
			gap = int(l.links[i].gap)
			l.move(i, dst)
		}
	}
	if l.live == 0 {
		l.reset()
		return
	}
	for l.deltas[l.head].Kind == 0 {
		l.head++
	}
	if a := &l.age; a.hasNext && int32(l.pos(l.head)-a.nextPos) >= 0 {
		a.oldest, a.hasNext = a.next, false
	}
	l.slide()
}

// move takes delta i out, which leaves a hole, and appends it to dst.
func (l *log[T]) move(i int, dst *log[T]) {
	*dst.extend() = l.deltas[i]
	if l.isInitial(i) {
		dst.link(len(dst.deltas) - 1).initial = true
		dst.initial++
		l.initial--
	}
	l.deltas[i] = object.Change[T]{}
	if i < len(l.links) {
		l.links[i] = link{}
	}
	l.live--
}

// slide gives the hole at the front back when it is the larger part, and memory
// when most of it has lain idle for long.
func (l *log[T]) slide() {
	n := len(l.deltas) - l.head
	if l.head < slideDeltas || l.head < n {
		return
	}
	links := l.links[min(l.head, len(l.links)):]
	l.high = max(l.high, len(l.deltas))
	if l.oversized(len(l.deltas)) {
		l.idle += l.head
	} else {
		l.idle = 0
	}
	if l.idle > cap(l.deltas) {
		l.idle = 0
		l.deltas = append(make([]object.Change[T], 0, 2*n), l.deltas[l.head:]...)
		l.links = append(make([]link, 0, 2*n), links...)
		l.keys = maps.Clone(l.keys) // which a Go map needs to shrink
	} else {
		copy(l.deltas, l.deltas[l.head:])
		clear(l.deltas[n:])
		l.deltas = l.deltas[:n]
		l.links = l.links[:copy(l.links, links)]
	}
	l.indexed = max(0, l.indexed-l.head)
	l.start += uint32(l.head)
	l.head = 0
}

// oversized reports whether most of what is allocated is idle if n deltas are used.
func (l *log[T]) oversized(n int) bool {
	return cap(l.deltas) > keepDeltas && n < cap(l.deltas)/8
}

// squeeze removes all holes, so that the log can be handed over as a slice.
func (l *log[T]) squeeze() {
	if !l.holes() {
		return
	}
	old := *l
	l.forgetAll()
	l.deltas, l.links, l.lists = l.deltas[:0], l.links[:0], l.lists[:0]
	l.head, l.live, l.initial = 0, 0, 0
	lists := 0
	for i := old.head; i < len(old.deltas); i++ {
		d := old.deltas[i]
		if d.Kind == 0 {
			continue
		}
		initial := old.isInitial(i)
		j := len(l.deltas)
		l.deltas = append(l.deltas, d)
		l.live++
		if initial {
			l.initial++
		}
		if i < len(old.links) {
			l.links = append(l.links, link{initial: initial})
		}
		if d.List != nil {
			w := old.lists[lists]
			w.pos = l.pos(j)
			l.lists = append(l.lists, w)
			lists++
		}
	}
	clear(old.deltas[len(l.deltas):])
}

// reset empties the log and drops every reference it held. What was allocated is
// kept for use again unless it has been far too large for a while.
func (l *log[T]) reset() {
	l.forgetAll()
	if l.oversized(max(l.high, len(l.deltas))) {
		l.slack++
	} else {
		l.slack = 0
	}
	if l.slack == keepResets {
		*l = log[T]{}
		return
	}
	clear(l.deltas[l.head:])
	l.deltas = l.deltas[:0]
	l.links = l.links[:0]
	clear(l.lists)
	l.lists, l.bad = l.lists[:0], false
	l.head, l.live, l.initial = 0, 0, 0
	l.start, l.high = 0, 0
	l.age = age{}
}

// stamp records the time, if it is time to, for a delta just added to a log whose
// clock began at born.
func (l *log[T]) stamp(born time.Time) {
	switch a := &l.age; {
	case l.live == 1:
		a.oldest, a.hasNext = time.Since(born), false
	case !a.hasNext:
		a.next, a.nextPos, a.hasNext = time.Since(born), l.pos(len(l.deltas)-1), true
	}
}
