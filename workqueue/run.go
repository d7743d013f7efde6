package workqueue

// runs is everything that is being processed, in the order in which it was taken, so
// that the first has run the longest.
type runs struct {
	slab           slab[run]
	oldest, newest uint32
}

// run is one item that was taken and is not done.
type run struct {
	started      int64 // on the queue's clock
	entry        uint32
	tag          tag // it waited with
	older, newer uint32
	again        uint32 // the seat that it will have after Done
}

func (r *runs) start(entry uint32, t tag, now int64) uint32 {
	id := r.slab.take()
	// Field by field, here and in end: what was written in small pieces and is read at once
	// in a large one has to wait until it has reached the cache.
	is := r.slab.at(id)
	is.started, is.entry, is.tag, is.older = now, entry, t, r.newest
	if r.newest != 0 {
		r.slab.at(r.newest).newer = id
	} else {
		r.oldest = id
	}
	r.newest = id
	return id
}

// end removes a run and returns when it began, its tag, and the seat of its item if that
// was added again.
func (r *runs) end(id uint32) (started int64, t tag, again uint32) {
	was := r.slab.at(id)
	started, t, again = was.started, was.tag, was.again
	older, newer := was.older, was.newer
	if older != 0 {
		r.slab.at(older).newer = newer
	} else {
		r.oldest = newer
	}
	if newer != 0 {
		r.slab.at(newer).older = older
	} else {
		r.newest = older
	}
	r.slab.release(id)
	return started, t, again
}
