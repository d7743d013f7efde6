package informer

import (
	"math"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// cursor is the place of one subscriber in the log. One goroutine at a time asks it
// what to hand over next, with take, and asks again when that has been handled.
//
// It either stands in a segment, after some of its batches, or is being caught up, from
// the store that it knows to one that was pinned when it joined the log again.
// Meanwhile its new place counts as read, until the log has to be cut; then it has none
// and, once caught up, is caught up again from there.
type cursor[T any] struct {
	log   *log[T]
	sub   *Subscription
	every bool // it reads every change and is never caught up; see SubOptions.EveryChange
	// fromNow: it begins with what comes after it has joined; see SubOptions.FromNow.
	fromNow bool

	// Guarded by log.mu:
	seg    *segment[T] // nil: no place
	batch  int         // batches of seg that are behind it
	behind bool        // in the chain, and not at the end of the log
	asleep bool        // wants to be rung when there is news
	to     *pin[T]     // what it will know when it is caught up; nil while it is not
	resync *pin[T]     // what is to be replayed, once it is there
	joined int64       // log.seq at its new place

	// Of the reader:
	from    *pin[T] // what it knows, while it is caught up; nil for nothing at all
	at      uint64  // revision of the store that it has handled
	upto    int     // batch, after the portion that was handed over
	handed  work    // what that was
	initial bool    // it has not had the initial state yet
}

// work is what a cursor has its reader do.
type work uint8

const (
	idle       work = iota // wait for the bell
	ended                  // nothing any more
	changes                // hand over changes
	difference             // hand over what leads from one snapshot to another
	replay                 // hand over a snapshot as Resynced
	synced                 // tell that the initial state has been handed over
)

// portion is a piece of work, with what it takes.
type portion[T any] struct {
	what     work
	changes  []object.Change[T]
	from, to store.Snapshot[T]
}

// begin makes the cursor join the log at its end, knowing nothing, or, from now on, what is there.
func (c *cursor[T]) begin() {
	l := c.log
	l.mu.Lock()
	defer l.unlock()
	l.cursors = append(l.cursors, c)
	c.initial = true
	present := l.join(c)
	if c.fromNow {
		c.at = present.snap.Revision()
		c.sub.seq.Store(c.joined)
		l.unpin(present)
		return
	}
	c.to = present
	// What it has not been told counts as lag from the start.
	c.sub.seq.Store(c.joined - int64(c.to.snap.Len()))
	c.sub.since.Store(time.Now().UnixNano())
}

// off reports whether nothing is kept for the cursor.
func (c *cursor[T]) off() bool { return c.seg == nil || c.seg.cut && !c.every }

// take returns what to do next. What it returned before counts as done.
func (c *cursor[T]) take() portion[T] {
	l := c.log
	l.mu.Lock()
	defer l.unlock()
	c.asleep = false
	c.settle()
	c.handed = idle
	for !c.sub.over.Load() {
		switch {
		case c.initial && l.synced > 0 && c.at >= l.synced:
			c.initial = false
			return portion[T]{what: synced}
		case c.to != nil:
			c.handed = difference
			p := portion[T]{what: difference, to: c.to.snap}
			if c.from != nil {
				p.from = c.from.snap
			}
			return p
		case c.resync != nil && c.at >= c.resync.snap.Revision():
			c.handed = replay
			return portion[T]{what: replay, to: c.resync.snap}
		case !c.initial && c.resync == nil && c.sub.due.Swap(false):
			c.resync = l.pin()
			continue
		}
		if p, ok := c.read(); ok {
			return p
		}
	}
	return portion[T]{what: ended}
}

// settle does what is due when a portion has been handled.
func (c *cursor[T]) settle() {
	l := c.log
	switch c.handed {
	case changes:
		c.batch = c.upto
		c.at = c.seg.batches[c.batch-1].revision
	case replay:
		l.unpin(c.resync)
		c.resync = nil
	case difference:
		c.at = c.to.snap.Revision()
		c.sub.seq.Store(c.joined)
		if c.from != nil {
			l.unpin(c.from)
		}
		if c.seg == nil {
			c.fall(c.to)
		} else {
			l.unpin(c.to)
			c.from, c.to = nil, nil
		}
	}
}

// fall takes the cursor from the store that it knows to the end of the log.
func (c *cursor[T]) fall(knows *pin[T]) {
	c.from = knows
	c.to = c.log.join(c)
	c.sub.falls.Add(1)
}

// read finds the next changes in the log. ok is false when something else must be
// looked at first.
func (c *cursor[T]) read() (p portion[T], ok bool) {
	l, s := c.log, c.seg
	limit := uint64(math.MaxUint64) // the revision at which something is to be done
	if c.initial && l.synced > 0 {
		limit = l.synced
	}
	if c.resync != nil {
		limit = min(limit, c.resync.snap.Revision())
	}
	// The batch that was under way when the cursor joined is part of what it knows.
	for c.batch < len(s.batches) && s.batches[c.batch].revision <= c.at {
		c.sub.seq.Add(int64(s.batches[c.batch].end - s.start(c.batch)))
		c.batch++
	}
	if c.batch < len(s.batches) {
		if s.batches[c.batch].revision > limit {
			c.at = limit
			return p, false
		}
		c.upto = len(s.batches)
		for s.batches[c.upto-1].revision > limit {
			c.upto--
		}
		c.sub.since.Store(s.batches[c.batch].at.UnixNano())
		c.handed = changes
		return portion[T]{what: changes, changes: s.changes[s.start(c.batch):s.batches[c.upto-1].end]}, true
	}
	switch {
	case s.cut && !c.every:
		s.end.refs++
		l.leave(c, s)
		if c.resync != nil {
			l.unpin(c.resync)
			c.resync = nil
			c.sub.due.Store(true)
		}
		c.fall(s.end)
		return p, false
	case s.next != nil:
		l.enter(c, s.next, 0)
		l.leave(c, s)
		return p, false
	}
	l.arrive(c)
	l.rest()
	if c.at < l.revision {
		c.at = l.revision
		return p, false
	}
	c.sub.since.Store(0)
	c.asleep = true
	return portion[T]{what: idle}, true
}

// start returns where a batch begins.
func (s *segment[T]) start(batch int) int {
	if batch == 0 {
		return 0
	}
	return s.batches[batch-1].end
}

// leave gives up the cursor's place and all that is kept for it.
func (c *cursor[T]) leave() {
	l := c.log
	l.mu.Lock()
	defer l.unlock()
	i := slices.Index(l.cursors, c)
	if i < 0 {
		return
	}
	l.cursors = slices.Delete(l.cursors, i, i+1)
	l.arrive(c)
	if c.seg != nil {
		s := c.seg
		c.seg = nil
		l.leave(c, s)
	}
	for _, p := range [...]*pin[T]{c.from, c.to, c.resync} {
		if p != nil {
			l.unpin(p)
		}
	}
	c.from, c.to, c.resync = nil, nil, nil
	l.rest()
}
