package delta

import (
	"context"
	"errors"

	"github.com/tarnproject/tarn/object"
)

// Pop blocks until a key is pending and passes all its deltas, oldest first, to process,
// which must not change them or keep the slice. initial is true if the FIFO had not synced
// when they were taken: they belong to the first list.
//
// Keys are taken in the order in which they first became pending, each with all its deltas.
// Older deltas of other keys may still be pending, so after a Pop the consumer does not
// represent any version of the server. Use [FIFO.PopBatch] for that.
//
// Pop returns the error of process. If that wraps [ErrRequeue], or process panics, the deltas
// are put back at the end of the queue, unless newer ones are pending for the key. After any
// other error they count as processed. Pop also returns the context's cause if that is done
// first, and [ErrClosed] if the FIFO is closed and empty.
func (f *FIFO[T]) Pop(ctx context.Context, process func(deltas Deltas[T], initial bool) error) error {
	initial, err := f.take(ctx, false)
	if err != nil {
		return err
	}
	back := true // stays so if process panics
	defer func() { f.finish(back, false) }()
	err = process(f.flight.deltas, initial)
	back = err != nil && errors.Is(err, ErrRequeue)
	return err
}

// PopBatch blocks until anything is pending, including a bookmark, and passes all of it to
// process, in order of arrival, with the marks reached. initial is true if the FIFO had not
// synced when the batch was taken.
//
// A consumer that applies the batch as one transaction is then at the server's state at
// the batch's marks, provided that it applies every batch. Where the last event was a
// deletion, that deletion is applied while the mark is still before it.
//
// PopBatch returns the error of process. If that wraps [ErrRequeue], the batch is put back
// before everything that arrived meanwhile, and is part of the next one. Otherwise it behaves
// like [FIFO.Pop].
func (f *FIFO[T]) PopBatch(ctx context.Context, process func(batch *object.Batch[T], initial bool) error) error {
	initial, err := f.take(ctx, true)
	if err != nil {
		return err
	}
	back := true
	defer func() { f.finish(back, true) }()
	err = process(&f.batch, initial)
	back = err != nil && errors.Is(err, ErrRequeue)
	return err
}

// take waits for its turn and for something to take, and makes that the flight.
func (f *FIFO[T]) take(ctx context.Context, all bool) (initial bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if f.flight == nil {
			if !all {
				f.explode()
			}
			if f.pending.live > 0 || all && len(f.marks.moved) > 0 {
				break
			}
			if f.closed {
				return false, ErrClosed
			}
		}
		f.consumers.wait(&f.mu, ctx.Done())
	}
	if f.spare == nil {
		f.spare = new(log[T])
	}
	f.flight, f.spare = f.spare, nil
	if all {
		f.pending, f.flight = f.flight, f.pending
		f.flight.squeeze()
		f.batch.Changes = f.flight.deltas[f.flight.head:]
		f.batch.Marks = f.marks.take(f.batch.Marks[:0])
	} else {
		f.pending.takeFirst(f.flight)
	}
	if f.roomy() {
		f.producers.wake()
	}
	return f.sync != synced, nil
}

// roomy reports whether a producer that waits may go on.
func (f *FIFO[T]) roomy() bool {
	return f.opts.Limit > 0 && f.pending.live < f.opts.Limit
}

// finish ends the flight: its deltas go back or are done with.
func (f *FIFO[T]) finish(back, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batch.Changes = nil
	switch {
	case back && all:
		f.putBatchBack()
	case back:
		f.putKeyBack()
	default:
		if all {
			f.marks.done()
		}
		f.recycle(f.before)
		f.before = nil
		if len(f.pending.lists) > 0 {
			f.before, f.flight = f.flight, nil
		}
	}
	done := f.flight
	f.flight = nil
	f.recycle(done)
	f.checkSynced()
	f.consumers.wake() // the next may take its turn
}

// putKeyBack puts the deltas of a key back at the end, unless newer ones of the key
// are pending. These then stand for them in the initial list.
func (f *FIFO[T]) putKeyBack() {
	f.explode() // while the flight still counts as known
	fl := f.flight
	if first, _, newer := f.pending.lookup(fl.deltas[0].Key); newer {
		if at := &f.pending.links[first]; fl.initial > 0 && !at.initial {
			at.initial = true
			f.pending.initial++
		}
		return
	}
	for i := range fl.deltas {
		f.enqueue(&fl.deltas[i], fl.isInitial(i))
	}
}

// putBatchBack puts the flight before everything that is pending.
func (f *FIFO[T]) putBatchBack() {
	f.marks.putBack()
	back, newer := f.flight, f.pending
	if back.live == 0 {
		return
	}
	for i := newer.head; i < len(newer.deltas); i++ {
		if newer.deltas[i].Kind != 0 {
			f.add(back, &newer.deltas[i], newer.isInitial(i))
		}
	}
	// Lists that came meanwhile come after the flight now, not during it.
	f.pending, f.flight = back, newer // which is recycled in its place
}

// recycle keeps a log's memory for the next flight.
func (f *FIFO[T]) recycle(l *log[T]) {
	if l == nil {
		return
	}
	l.reset()
	f.spare = l
}
