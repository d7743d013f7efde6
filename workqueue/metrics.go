package workqueue

import "time"

// Metrics receives the events of a queue. The state at a moment (depth, unfinished work, the
// longest running item) is [Queue.Stats]. This package imports no metrics library.
//
// The methods are called by the goroutine that caused the event, several at a time, and without
// the queue's lock, so they may call the queue.
type Metrics interface {
	// Added reports that n items began to wait, or will after Done.
	Added(n int)
	// Retried reports that n items were added with a delay or rate-limited.
	Retried(n int)
	// Dropped reports that n items were added but will not be taken, see
	// [Options.Dropped].
	Dropped(n int)
	// Waited reports that an item was taken and how long ago it had been added.
	Waited(d time.Duration)
	// Worked reports that an item is done and how long ago it had been taken.
	Worked(d time.Duration)
}

// count reports adds and retries to the metrics. The lock must not be held.
func (q *Queue[K]) count(added, retried int) {
	if added > 0 {
		q.measure(func(m Metrics) { m.Added(added) })
	}
	if retried > 0 {
		q.measure(func(m Metrics) { m.Retried(retried) })
	}
}

// measure calls a method of the metrics, if there are any. The lock must not be held.
func (q *Queue[K]) measure(report func(Metrics)) {
	if q.opts.Metrics != nil {
		q.guard("Metrics", func() { report(q.opts.Metrics) })
	}
}

// guard calls a function of the program. A panic of it is counted and reported. The lock must not be
// held.
func (q *Queue[K]) guard(option string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			q.panics.Add(1)
			if q.opts.OnPanic != nil {
				q.opts.OnPanic(option, p)
			}
		}
	}()
	f()
}
