package informer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// log is the one record of changes that all subscribers read, each with a [cursor].
//
// It is a chain of segments, each of whole batches. The writer appends to the tail. A
// segment that every cursor has passed is dropped; when all of them stand at the end,
// the tail is emptied and used again, so that a log whose readers keep up holds nothing
// and allocates nothing. When the chain has more changes than its limit, the oldest segment
// is cut off. A cursor in it may read to its end and is then caught up with the difference
// from the snapshot that was taken there. So a blocked reader costs one segment and one
// snapshot, regardless of the number of changes.
//
// Cursors of subscribers with SubOptions.EveryChange are the exception: they are never caught
// up. Segments that were cut off stay linked in front of the chain, without a pin, until the
// last such cursor has left them.
//
// Rejected: a ring buffer with a snapshot for each batch. A snapshot must be taken while its
// revision is current, and each makes every write to the store slower. Here there is one for
// every segment that a cursor has not passed, and usually none.
type log[T any] struct {
	store *store.Store[T]
	bound int // changes in the chain before it is cut, at least
	// share makes the bound grow with the store: it is at least the number of objects divided
	// by share. A difference visits all objects, so it must not be needed too often, and the
	// memory stays proportional to the number of objects. 0 for a fixed bound.
	share int

	// seq is the total number of changes logged so far. It is written under mu.
	seq atomic.Int64

	mu sync.Mutex // guards all below, and what cursors say it does
	// oldest is the first segment that is kept for cursors that need every change; the segments
	// before head are cut. It is head when there are none.
	oldest     *segment[T]
	head, tail *segment[T]
	size       int // changes in the chain
	apart      int // changes in the segments before it
	// revision is that of the store at the end of the log. The store may be one
	// revision ahead, when the writer has applied a batch and not yet logged it.
	revision uint64
	// synced is the revision at which the mirror had its initial state; 0 before.
	synced  uint64
	writing bool // the writer has the tail's slice
	cursors []*cursor[T]
	behind  int // cursors in the chain that are not at its end
	unused  []store.Snapshot[T]

	unparked []*cursor[T] // of the writer
}

// segment is a part of the log.
type segment[T any] struct {
	changes []object.Change[T]
	batches []batchEnd
	next    *segment[T]
	cut     bool // out of the chain
	readers int  // cursors that stand in it and may be caught up
	every   int  // cursors that stand in it and need every change
	// end is the store at the segment's end, once there is a next one.
	end *pin[T]
}

// batchEnd is the end of a batch in its segment, and the store's revision after it.
type batchEnd struct {
	end      int
	revision uint64
	at       time.Time
}

// pin is a snapshot with a count of its users: a segment and cursors. log.mu guards it.
type pin[T any] struct {
	snap store.Snapshot[T]
	refs int
}

// defaultBound and defaultShare are the defaults of bound and share.
const (
	defaultBound = 2048
	defaultShare = 16
)

// newLog makes the log of a store. A bound of 0 is the default one.
func newLog[T any](s *store.Store[T], bound int) *log[T] {
	l := &log[T]{store: s, bound: bound}
	if bound == 0 {
		l.bound, l.share = defaultBound, defaultShare
	}
	l.tail = &segment[T]{}
	l.oldest, l.head = l.tail, l.tail
	l.revision = revisionOf(s)
	return l
}

func revisionOf[T any](s *store.Store[T]) (revision uint64) {
	s.View(func(snap store.Snapshot[T]) { revision = snap.Revision() })
	return revision
}

// limit returns how many changes the chain may have.
func (l *log[T]) limit() int {
	if l.share == 0 {
		return l.bound
	}
	return max(l.bound, l.store.Len()/l.share)
}

// piece returns how many changes a segment has before the next one is begun.
func (l *log[T]) piece() int { return max(1, l.limit()/4) }

// begin returns the slice that the next batch's changes are to be appended to. It must
// be called before the batch is applied: if a segment ends here, the store is pinned.
func (l *log[T]) begin() []object.Change[T] {
	l.mu.Lock()
	defer l.unlock()
	l.rest()
	l.writing = true
	if len(l.tail.changes) >= l.piece() {
		l.close()
	}
	return l.tail.changes
}

// close begins a new segment and moves cursors that have read everything to it, so that the
// older segments are kept only for cursors that are behind.
func (l *log[T]) close() {
	full := l.tail
	full.end = l.pin()
	l.tail = &segment[T]{changes: make([]object.Change[T], 0, min(l.piece(), defaultBound/4))}
	full.next = l.tail
	for _, c := range l.cursors {
		if c.seg == full && !c.behind {
			l.leave(c, full)
			l.enter(c, l.tail, 0)
		}
	}
	l.trim()
}

// commit logs what a batch changed: changes is what begin returned with the changes
// appended. The store is at that revision now.
func (l *log[T]) commit(changes []object.Change[T], revision uint64, synced bool) {
	l.mu.Lock()
	l.writing = false
	l.revision = revision
	if synced {
		l.synced = revision
	}
	news := len(changes) - len(l.tail.changes)
	if news > 0 {
		l.tail.changes = changes
		l.tail.batches = append(l.tail.batches, batchEnd{end: len(changes), revision: revision, at: time.Now()})
		l.size += news
		l.seq.Add(int64(news))
	}
	for _, c := range l.cursors {
		if news > 0 && !c.behind && !c.off() {
			c.behind = true
			l.behind++
		}
		if c.parked && (news > 0 || synced || c.resync != nil) {
			c.parked = false // so that it is rung once
			l.unparked = append(l.unparked, c)
		}
	}
	for limit := l.limit(); l.size > limit && l.head != l.tail; {
		l.cut()
	}
	l.rest()
	l.unlock()
	for i, c := range l.unparked {
		c.sub.ring()
		l.unparked[i] = nil
	}
	l.unparked = l.unparked[:0]
}

// cut takes the first segment out of the chain. Cursors that read it will find out at
// its end; those that are caught up just now lose their place. Cursors that need every change
// keep it.
func (l *log[T]) cut() {
	s := l.head
	for _, c := range l.cursors {
		if c.seg != s || c.every {
			continue
		}
		l.arrive(c)
		if c.to != nil {
			c.seg = nil
			s.readers--
		}
	}
	l.unchain(s)
}

// trim drops segments without readers from the chain's beginning.
func (l *log[T]) trim() {
	for l.head != l.tail && l.head.readers == 0 && l.head.every == 0 {
		l.unchain(l.head)
	}
}

// unchain makes the chain begin after s, its first segment.
func (l *log[T]) unchain(s *segment[T]) {
	l.head, s.cut = s.next, true
	l.size -= len(s.changes)
	l.apart += len(s.changes)
	if s.readers == 0 {
		l.unpin(s.end)
	}
	l.unlink()
}

// unlink frees the segments before the chain that no cursor needs any more.
func (l *log[T]) unlink() {
	for l.oldest != l.head && l.oldest.every == 0 {
		s := l.oldest
		l.apart -= len(s.changes)
		l.oldest, s.next = s.next, nil
	}
}

// rest empties the log when all cursors have read it.
func (l *log[T]) rest() {
	if l.behind > 0 || l.writing || len(l.tail.changes) == 0 {
		return
	}
	l.trim()
	s := l.tail
	l.size = 0
	clear(s.changes)
	s.changes, s.batches = s.changes[:0], s.batches[:0]
	if cap(s.changes) > 2*defaultBound {
		s.changes, s.batches = nil, nil
	}
	for _, c := range l.cursors {
		if c.seg == s {
			c.batch = 0
		}
	}
}

// join puts a cursor at the end of the log. The pin it is given is the store there, or
// one batch later; the cursor skips that batch.
func (l *log[T]) join(c *cursor[T]) *pin[T] {
	p := l.pin()
	l.enter(c, l.tail, len(l.tail.batches))
	c.joined = l.seq.Load()
	return p
}

// enter makes a cursor stand in a segment.
func (l *log[T]) enter(c *cursor[T], s *segment[T], batch int) {
	c.seg, c.batch = s, batch
	if c.every {
		s.every++
	} else {
		s.readers++
	}
}

// leave is called when a cursor no longer stands in a segment.
func (l *log[T]) leave(c *cursor[T], s *segment[T]) {
	if c.every {
		s.every--
		l.unlink()
	} else if s.readers--; s.cut && s.readers == 0 {
		l.unpin(s.end)
	}
	l.trim()
}

// arrive notes that a cursor is at the end, or out of the chain: nothing in the chain
// is kept for it.
func (l *log[T]) arrive(c *cursor[T]) {
	if c.behind {
		c.behind = false
		l.behind--
	}
}

func (l *log[T]) pin() *pin[T] { return &pin[T]{snap: l.store.Snapshot(), refs: 1} }

// unpin takes one reference back. The snapshot is released by unlock, outside of the
// lock: the store may then reclaim much.
func (l *log[T]) unpin(p *pin[T]) {
	p.refs--
	if p.refs == 0 {
		l.unused = append(l.unused, p.snap)
	}
}

func (l *log[T]) unlock() {
	unused := l.unused
	l.unused = nil
	l.mu.Unlock()
	for _, snap := range unused {
		snap.Release()
	}
}

// end makes all cursors stop.
func (l *log[T]) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.cursors {
		c.sub.stop()
	}
}
