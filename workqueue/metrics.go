package workqueue

import "time"

// Metrics is told what happens in a queue, as it happens; what there is at a moment
// (depth, unfinished work, the longest running item) is [Queue.Stats], to be asked
// for when somebody looks. This package knows no metrics library.
//
// The methods are called from whichever goroutine did it, several at a time, and
// without the queue's lock, so they may call the queue.
type Metrics interface {
	// Added tells that n items came to wait which were not waiting yet.
	Added(n int)
	// Retried tells that n items were added with a delay or rate-limited.
	Retried(n int)
	// Dropped tells that n items were added but will not be taken, see
	// [Options.Dropped].
	Dropped(n int)
	// Waited tells that an item was taken and how long ago it had been added.
	Waited(d time.Duration)
	// Worked tells that an item is done and how long ago it had been taken.
	Worked(d time.Duration)
}

// count tells the metrics of adds and retries. The lock must not be held.
func (q *Queue[K]) count(added, retried int) {
	m := q.opts.Metrics
	if m == nil {
		return
	}
	if added > 0 {
		m.Added(added)
	}
	if retried > 0 {
		m.Retried(retried)
	}
}
