package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// ShutDown closes the queue. Items that are delayed, and items added from now on, are
// dropped; see [Options.Dropped]. Items that wait can still be taken, and so can items that
// were added while they are processed, after Done. Get then returns shutdown true.
//
// ShutDown does not wait, and ends calls of Drain. Both may be called in any order and more than
// once.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	dropped := q.close()
	q.endDrains()
	q.mu.Unlock()
	q.tellDropped(dropped)
}

// Drain is ShutDown that waits until every waiting item has been taken and every taken item is Done. That needs
// workers. In client-go it returns as soon as nothing is being processed, even if items wait. If the context is
// done first, the error wraps its cause and reports how much is left, which Snapshot lists. If ShutDown is called
// first, the error says that.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	dropped := q.close()
	if q.empty() {
		q.mu.Unlock()
		q.tellDropped(dropped)
		return nil
	}
	if q.drained == nil {
		q.drained = make(chan struct{})
	}
	drained := q.drained
	q.mu.Unlock()
	q.tellDropped(dropped)

	cause := errors.New("ShutDown ended it")
	select {
	case <-drained:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.empty() {
		return nil
	}
	return fmt.Errorf("workqueue: drain: %d waiting and %d processing: %w", q.line.ready+q.dirty, len(q.runs), cause)
}

// ShuttingDown reports whether the queue is shut down, by any of the methods.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close shuts down and returns the delayed items that are dropped.
func (q *Queue[K]) close() (dropped []Item[K]) {
	if q.closed {
		return nil
	}
	q.closed = true
	q.arrived.Broadcast()
	if q.delays.timer != nil {
		q.delays.timer.Stop()
	}
	h := &q.delays.heap
	for len(h.nodes) > 0 {
		n := h.pop()
		e := q.entries.at(n.id)
		dropped = append(dropped, Item[K]{Key: e.key, State: Delayed, Reason: e.late.reason(), Priority: q.line.priority(e.late), Due: q.at(n.due)})
		q.line.drop(e.late)
		e.late = 0
		if e.place == 0 {
			q.forget(n.id)
		}
	}
	h.nodes = nil
	q.dropped += uint64(len(dropped))
	return dropped
}

func (q *Queue[K]) tellDropped(items []Item[K]) {
	if len(items) > 0 {
		q.measure(func(m Metrics) { m.Dropped(len(items)) })
	}
	if q.opts.Dropped != nil {
		for _, item := range items {
			q.guard("Dropped", func() { q.opts.Dropped(item) })
		}
	}
}

// refuse drops an item that came too late. It unlocks.
func (q *Queue[K]) refuse(item K, r Reason, priority int) {
	q.dropped++
	q.mu.Unlock()
	q.tellDropped([]Item[K]{{Key: item, State: Refused, Reason: r, Priority: priority}})
}

// empty reports whether nothing waits and nothing is processed.
func (q *Queue[K]) empty() bool { return q.line.ready == 0 && len(q.runs) == 0 }

func (q *Queue[K]) endDrains() {
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}
