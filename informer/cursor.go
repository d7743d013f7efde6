package informer

import (
	"math"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// cursor is the position of one subscriber in the log. One goroutine at a time calls take for the
// next portion of work, and calls it again when that has been handled.
//
// A cursor either stands in a segment, after some of its batches, or is being caught up from the
// last snapshot it has handled to one that was taken when it rejoined the log. If the log is cut
// at the new position before the cursor has caught up, it is caught up again from there.
type cursor[T any] struct {
	log   *log[T]
	sub   *Subscription
	every bool // it reads every change and is never caught up; see SubOptions.EveryChange
	// fromNow: it begins with what comes after it has joined; see SubOptions.FromNow.
	fromNow bool

	// Guarded by log.mu:
	seg    *segment[T] // nil: no position
	batch  int         // batches of seg that it has handled
	behind bool        // in the chain, and not at the end of the log
	parked bool        // its reader waits on the bell
	to     *pin[T]     // the snapshot it is being caught up to; nil otherwise
	resync *pin[T]     // the snapshot to replay once the cursor has reached it
	joined int64       // log.seq at its new position

	// Used by the reader only:
	from    *pin[T] // the snapshot it is being caught up from; nil for the empty one
	at      uint64  // revision of the store that it has handled
	upto    int     // the value of batch after the current portion
	handed  work    // the kind of the current portion
	initial bool    // it has not received the initial state yet
}

// work is the kind of a portion.
type work uint8

const (
	idle       work = iota // wait for the bell
	ended                  // the subscription is over
	changes                // deliver changes
	difference             // deliver the difference between two snapshots
	replay                 // deliver a snapshot as Synced changes
	synced                 // report that the initial state has been delivered
)

// portion is a unit of work for the reader.
type portion[T any] struct {
	what     work
	changes  []object.Change[T]
	from, to store.Snapshot[T]
}

// begin adds the cursor at the end of the log. Its first portion is the whole state, unless it is
// fromNow.
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
	// The initial state counts as lag until it is delivered.
	c.sub.seq.Store(c.joined - int64(c.to.snap.Len()))
	c.sub.since.Store(time.Now().UnixNano())
}

// off reports whether nothing is kept for the cursor.
func (c *cursor[T]) off() bool { return c.seg == nil || c.seg.cut && !c.every }

// take returns the next portion. The previous one counts as handled.
func (c *cursor[T]) take() portion[T] {
	l := c.log
	l.mu.Lock()
	defer l.unlock()
	c.parked = false
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

// settle records that the current portion has been handled.
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

// fall moves the cursor to the end of the log, to be caught up from a snapshot.
func (c *cursor[T]) fall(knows *pin[T]) {
	c.from = knows
	c.to = c.log.join(c)
	c.sub.falls.Add(1)
}

// read returns the next changes in the log. If ok is false, the caller must check for other work
// first.
func (c *cursor[T]) read() (p portion[T], ok bool) {
	l, s := c.log, c.seg
	limit := uint64(math.MaxUint64) // the revision at which something is to be done
	if c.initial && l.synced > 0 {
		limit = l.synced
	}
	if c.resync != nil {
		limit = min(limit, c.resync.snap.Revision())
	}
	// The snapshot may include the batch that was being logged when the cursor joined.
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
	c.parked = true
	return portion[T]{what: idle}, true
}

// start returns where a batch begins.
func (s *segment[T]) start(batch int) int {
	if batch == 0 {
		return 0
	}
	return s.batches[batch-1].end
}

// leave removes the cursor from the log and frees what is kept for it.
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
