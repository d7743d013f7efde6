package workqueue

import (
	"context"
	"time"
)

// Get blocks until an item can be taken, and takes it. The item is being processed until Done is
// called with it. If shutdown is true, the queue is shut down and nothing is left to take.
func (q *Queue[K]) Get() (item K, shutdown bool) {
	item, err := q.GetContext(context.Background())
	return item, err != nil
}

// GetContext is Get that also returns when the context is done. The error is the context's cause,
// even if items wait, or [ErrShutDown].
func (q *Queue[K]) GetContext(ctx context.Context) (item K, err error) {
	if ctx.Err() != nil {
		return item, context.Cause(ctx)
	}
	q.mu.Lock()
	if err := q.await(ctx); err != nil {
		q.mu.Unlock()
		return item, err
	}
	item, waited := q.take()
	q.mu.Unlock()
	q.measure(func(m Metrics) { m.Waited(waited) })
	return item, nil
}

// await waits until there is an item. The lock must be held.
func (q *Queue[K]) await(ctx context.Context) error {
	if q.line.ready > 0 {
		return nil
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.arrived.Broadcast()
		})()
	}
	for q.line.ready == 0 {
		switch {
		case q.closed:
			return ErrShutDown
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		q.arrived.Wait()
	}
	return nil
}

// take takes the next item, of at least one. The lock must be held.
func (q *Queue[K]) take() (item K, waited time.Duration) {
	now := q.stamp()
	var id uint32
	var t tag
	q.line.ready--
	if q.line.plain {
		var r Reason
		id, r = pop(&q.line.chain, &q.entries)
		q.line.byAge = true
		t = tagOf(0, r)
	} else {
		waiter := q.line.pick(now, q.age)
		s := q.line.waiters.at(waiter)
		id, t, waited = s.entry, s.tag, time.Duration(now-s.since)
		q.line.dequeue(waiter)
		q.line.waiters.release(waiter)
	}
	q.start(id, t, now)
	return q.entries.at(id).key, waited
}

// Done ends the processing of an item that was taken. If the item was added in the meantime, it
// waits again. Done does nothing for an item that is not being processed.
func (q *Queue[K]) Done(item K) {
	hash := hashOf(item)
	q.mu.Lock()
	worked, ok := q.finish(item, hash)
	q.mu.Unlock()
	if ok {
		q.measure(func(m Metrics) { m.Worked(worked) })
	}
}

func (q *Queue[K]) finish(item K, hash uint32) (worked time.Duration, ok bool) {
	id, _ := q.find(item, hash)
	if id == 0 || q.entries.at(id).run() == 0 {
		return 0, false
	}
	e := q.entries.at(id)
	was := q.end(e.run())
	e.place = was.dirty
	q.line.drop(was.tag)
	if q.opts.Metrics != nil {
		worked = time.Duration(q.now() - was.started)
	}
	switch {
	case was.dirty != 0:
		q.dirty--
		q.wait(id, was.dirty, q.stamp())
	case e.slot == 0:
		q.forget(id)
	}
	if q.closed && q.empty() {
		q.endDrains()
	}
	return worked, true
}
