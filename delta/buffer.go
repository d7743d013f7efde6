package delta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Buffer holds the changes between the sources of a store and its writer. Create one with [NewBuffer].
//
// Guarantees:
//
//   - A batch has everything that arrived before its marks and nothing after, in order of arrival. Nothing
//     is merged or dropped: whether a change is stale, or a deletion is of an unknown object, is decided by
//     the consumer.
//   - One process function runs at a time, however many goroutines call PopBatch.
//
// All methods are safe for concurrent use. A process function runs without the lock and may
// call every method except PopBatch, which would deadlock; with [BufferOptions.Limit] it
// must not call Apply either. Its argument is the buffer's own memory: the function may
// read it until it returns, and must not change or keep it. It may keep the objects.
//
// Memory is proportional to what is pending. That of a burst is kept while bursts follow.
//
// Rejected: the FIFO, as in client-go. It groups changes by key, which a batch does not need, and expands
// each list: that visits every known key twice, here and in the store, which compares them anyway.
type Buffer[T any] struct {
	opts BufferOptions

	// mu guards everything below. It is never held while a process function runs.
	mu      sync.Mutex
	pending section[T]
	// flight is what is being processed. While busy is set it belongs to the goroutine that took it,
	// and is only read.
	flight  section[T]
	busy    bool
	closed  bool
	blocked int       // producers that wait for room
	room    sync.Cond // where they wait
	ready   gate      // consumers wait for something to take, or for their turn
}

// BufferOptions change how a [Buffer] works. The zero BufferOptions is ready to use.
type BufferOptions struct {
	// Held reports whether the consumer holds an object. Defaults to nil: it holds none.
	Held object.Held
	// Limit bounds the pending changes. When it is reached, a producer blocks until the
	// consumer has taken some, or until Close, after which it gets ErrClosed. A batch is admitted as a
	// whole, and a list counts as one change. With a limit, a process function must
	// not produce into its own buffer: it would deadlock.
	// Defaults to 0: no limit.
	Limit int
}

// section is a part of what went through a buffer.
type section[T any] struct {
	object.Batch[T]
	// at has the place of each scope's mark. It is not used for the first mark, which is mostly the only one.
	at    map[object.Scope]int
	since time.Time // when the first change came
	index index
}

// NewBuffer returns an empty buffer.
func NewBuffer[T any](opts BufferOptions) (*Buffer[T], error) {
	if opts.Limit < 0 {
		return nil, fmt.Errorf("delta: Limit is %d; want a positive number, or 0 for no limit", opts.Limit)
	}
	b := &Buffer[T]{opts: opts, ready: newGate()}
	b.room.L = &b.mu
	return b, nil
}

// Apply implements [object.Sink]: it queues the changes and marks of a batch. It blocks while the buffer
// is full. The buffer owns the batch's lists from then on. The error is [ErrClosed].
func (b *Buffer[T]) Apply(batch *object.Batch[T]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && b.opts.Limit > 0 && len(b.pending.Changes) >= b.opts.Limit {
		b.blocked++
		b.room.Wait()
		b.blocked--
	}
	if b.closed {
		return ErrClosed
	}
	if len(b.pending.Changes) == 0 && len(batch.Changes) > 0 {
		b.pending.since = time.Now()
	}
	b.pending.append(batch)
	b.ready.open()
	return nil
}

// append adds the changes of a batch, and its marks: of each scope only the last one is kept.
func (s *section[T]) append(batch *object.Batch[T]) {
	s.Changes = append(s.Changes, batch.Changes...)
	for _, m := range batch.Marks {
		i, ok := 0, len(s.Marks) > 0 && s.Marks[0].Scope == m.Scope
		if !ok {
			i, ok = s.at[m.Scope]
		}
		if ok {
			s.Marks[i] = m
			continue
		}
		if i = len(s.Marks); i > 0 {
			if s.at == nil {
				s.at = map[object.Scope]int{}
			}
			s.at[m.Scope] = i
		}
		s.Marks = append(s.Marks, m)
	}
}

// PopBatch blocks until anything is pending, including a mark, and passes all of it to
// process, in order of arrival, with the marks reached.
//
// A consumer that applies the batch as one transaction is then at the server's state at
// the batch's marks, provided that it applies every batch. Where the last event was a
// deletion, that deletion is applied while the mark is still before it.
//
// PopBatch returns the error of process. If that wraps [ErrRequeue], or process panics, the batch is put
// back before everything that arrived meanwhile, and is part of the next one. After any other error it
// counts as processed. PopBatch also returns the context's cause if that is done first, and [ErrClosed] if
// the buffer is closed and empty.
func (b *Buffer[T]) PopBatch(ctx context.Context, process func(*object.Batch[T]) error) error {
	if err := b.take(ctx); err != nil {
		return err
	}
	back := true // stays so if process panics
	defer func() { b.finish(back) }()
	err := process(&b.flight.Batch)
	back = err != nil && errors.Is(err, ErrRequeue)
	return err
}

// take waits for its turn and for something to take, and makes that the flight.
func (b *Buffer[T]) take(ctx context.Context) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; ; b.ready.wait(ctx, &b.mu) {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case b.busy:
			continue
		case len(b.pending.Changes)+len(b.pending.Marks) > 0:
			b.pending, b.flight, b.busy = b.flight, b.pending, true
			b.room.Broadcast()
			return nil
		case b.closed:
			err = ErrClosed
		default:
			continue
		}
		b.ready.open() // for the next consumer
		return err
	}
}

// finish ends the flight, which goes back or is done with.
func (b *Buffer[T]) finish(back bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.flight.Changes); back {
		if n == 0 {
			b.flight.since = b.pending.since
		}
		b.flight.append(&b.pending.Batch)
		b.pending, b.flight = b.flight, b.pending
	} else if size := cap(b.flight.Changes); size > keepChanges && n < size/8 {
		b.flight = section[T]{}
	}
	b.flight.reset()
	b.busy = false
	b.ready.open() // for the next consumer
}

// keepChanges is the number of changes for which memory is kept however few there are.
const keepChanges = 1024

// reset empties the section and drops every reference it held. Its memory is kept for use again.
func (s *section[T]) reset() {
	clear(s.Changes)
	clear(s.at)
	s.Changes, s.Marks, s.index = s.Changes[:0], s.Marks[:0], index{}
}

// Held implements [object.Sink]: it reports whether the consumer holds the object with this key, UID and
// version, or will once everything pending is processed, so that a list need not decode it. It is false
// without a version, because changes would go unnoticed.
func (b *Buffer[T]) Held(key object.Key, uid object.UID, version object.Version) bool {
	if !version.Known() {
		return false
	}
	if newest, decided := b.newest(key); decided {
		return newest.uid == uid && newest.version == version
	}
	return b.opts.Held != nil && b.opts.Held(key, uid, version)
}

// newest returns the newest state of a key that is pending or in flight, empty if the object will not be
// held. decided is false if there is none.
func (b *Buffer[T]) newest(key object.Key) (newest mention, decided bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest, decided = b.pending.newest(key); !decided {
		newest, decided = b.flight.newest(key)
	}
	return newest, decided
}

// mention is the newest state of a key in a section.
type mention struct {
	at      int // the change that has it
	uid     object.UID
	version object.Version
}

// index has the newest mention of each key, and the place of the last list of each scope. It is made when
// it is first needed: while a source lists, mostly nothing is pending.
type index struct {
	reach int // it has the changes before this
	keys  map[object.Key]mention
	lists map[object.Scope]int
}

func (s *section[T]) newest(key object.Key) (newest mention, decided bool) {
	x := &s.index
	if x.reach < len(s.Changes) && x.keys == nil {
		x.keys, x.lists = map[object.Key]mention{}, map[object.Scope]int{}
	}
	for ; x.reach < len(s.Changes); x.reach++ {
		c := &s.Changes[x.reach]
		switch {
		case c.List != nil:
			x.lists[c.List.Scope] = x.reach
			for i := range c.List.Items {
				if item := &c.List.Items[i]; item.Err == nil {
					x.keys[item.Key] = mention{x.reach, item.UID, item.Version}
				}
			}
		case c.Kind == object.Deleted, c.Kind == object.Quarantined:
			x.keys[c.Key] = mention{at: x.reach}
		default:
			x.keys[c.Key] = mention{x.reach, c.UID, c.Version}
		}
	}
	newest, decided = x.keys[key]
	for _, scope := range [...]object.Scope{object.Everything, object.Scope(key.Namespace)} {
		if at, ok := x.lists[scope]; ok && (!decided || at > newest.at) {
			newest, decided = mention{at: at}, true // the list does not have it
		}
	}
	return newest, decided
}

// Close closes the buffer for producers, which get [ErrClosed]. Pending changes can still be
// taken; after that PopBatch returns ErrClosed. Further calls do nothing.
func (b *Buffer[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
	b.ready.open()
}

// Stats is how much a buffer holds at one moment.
type Stats struct {
	// Deltas is the number of changes pending. A list counts as one.
	Deltas int
	// InFlight is the number of changes being processed.
	InFlight int
	// Blocked is the number of producers that wait for room.
	Blocked int
	// Oldest is how long the oldest pending change has waited.
	Oldest time.Duration
}

// Stats returns the current figures. It is cheap.
func (b *Buffer[T]) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Deltas: len(b.pending.Changes), InFlight: len(b.flight.Changes), Blocked: b.blocked}
	if s.Deltas > 0 {
		s.Oldest = time.Since(b.pending.since)
	}
	return s
}
