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
	*r.slab.at(id) = run{started: now, entry: entry, tag: t, older: r.newest}
	if r.newest != 0 {
		r.slab.at(r.newest).newer = id
	} else {
		r.oldest = id
	}
	r.newest = id
	return id
}

// end removes a run and returns what it was.
func (r *runs) end(id uint32) run {
	was := *r.slab.at(id)
	if was.older != 0 {
		r.slab.at(was.older).newer = was.newer
	} else {
		r.oldest = was.newer
	}
	if was.newer != 0 {
		r.slab.at(was.newer).older = was.older
	} else {
		r.newest = was.older
	}
	r.slab.release(id)
	return was
}
