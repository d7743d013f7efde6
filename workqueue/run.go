package workqueue

// run is one item that was taken and is not done.
type run struct {
	started int64  // on the queue's clock; 0: not known
	order   uint64 // in which it was taken
	entry   uint32
	tag     tag    // it waited with
	dirty   uint32 // the waiter that it will have after Done
}

// start makes a run of an entry, which holds the tag from now on.
func (q *Queue[K]) start(id uint32, t tag, now int64) {
	q.taken++
	q.runs = append(q.runs, run{started: now, order: q.taken, entry: id, tag: t})
	q.entries.at(id).place = processing | uint32(len(q.runs))
}

// end removes a run. The last one takes its number.
func (q *Queue[K]) end(number uint32) run {
	was, last := q.runs[number-1], q.runs[len(q.runs)-1]
	q.runs[number-1] = last
	q.entries.at(last.entry).place = processing | number
	q.runs = q.runs[:len(q.runs)-1]
	return was
}

// longest returns the run that was started first, of at least one.
func (q *Queue[K]) longest() *run {
	first := &q.runs[0]
	for i := range q.runs {
		if r := &q.runs[i]; r.order < first.order {
			first = r
		}
	}
	return first
}
