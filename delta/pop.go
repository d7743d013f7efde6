package delta

import (
	"context"
	"errors"
)

// Pop blocks until a key is pending and passes all its deltas, oldest first, to process,
// which must not change them or keep the slice. initial is true if the FIFO had not synced
// when they were taken: they belong to the first list.
//
// Keys are taken in the order in which they first became pending, each with all its deltas.
// Older deltas of other keys may still be pending, so after a Pop the consumer does not
// represent any version of the server. Use a [Buffer] for that.
//
// Pop returns the error of process. If that wraps [ErrRequeue], or process panics, the deltas
// are put back at the end of the queue, unless newer ones are pending for the key. After any
// other error they count as processed. Pop also returns the context's cause if that is done
// first, and [ErrClosed] if the FIFO is closed and empty.
func (f *FIFO[T]) Pop(ctx context.Context, process func(deltas Deltas[T], initial bool) error) error {
	initial, err := f.take(ctx)
	if err != nil {
		return err
	}
	back := true // stays so if process panics
	defer func() { f.finish(back) }()
	err = process(f.flight.deltas, initial)
	back = err != nil && errors.Is(err, ErrRequeue)
	return err
}

// take waits for its turn and for something to take, and makes that the flight.
func (f *FIFO[T]) take(ctx context.Context) (initial bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; ; f.ready.wait(ctx, &f.mu) {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case f.flight != nil:
			continue
		case f.first != nil:
			f.flight = f.first
			f.first, f.flight.next = f.flight.next, nil
			delete(f.pending, f.flight.key())
			f.shrink()
			return !f.HasSynced(), nil
		case f.closed:
			err = ErrClosed
		default:
			continue
		}
		f.ready.open() // for the next consumer
		return false, err
	}
}

// finish ends the flight: its deltas go back to the end, unless newer ones of the key are pending, which
// then stand for them in the initial list; or they are done with.
func (f *FIFO[T]) finish(back bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.flight
	f.flight = nil
	if e.initial {
		f.initial--
	}
	switch newer := f.pending[e.key()]; {
	case !back:
	case newer == nil:
		for i := range e.deltas {
			f.put(&e.deltas[i], e.initial)
		}
	case e.initial && !newer.initial:
		newer.initial = true
		f.initial++
	}
	f.checkSynced()
	clear(e.deltas)
	*e = entry[T]{deltas: e.deltas[:0], next: f.free}
	if cap(e.deltas) <= keepDeltas {
		f.free = e
	}
	f.ready.open() // for the next consumer
}

// keepDeltas is the largest memory of one key's deltas that is kept for others.
const keepDeltas = 64
