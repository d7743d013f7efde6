package clientgo

import (
	"slices"
	"sync/atomic"
)

// roll is objects one beside the other, as lists want them: all that a store holds, or all
// that have a value in an index. They are in the order in which they came, but that the
// last takes the place of one that is removed.
//
// The store's writers change it, on their lock. Readers get a view, which never changes;
// from then on a write copies the chunk it changes, once, until there is another view. Chunks
// are kept from the first view on, and those of a short roll not even then: most indexes
// have many values, most values few objects, and many stores are never listed.
type roll struct {
	value string                  // in the index
	view  atomic.Pointer[[]chunk] // chunks as readers have them; nil since the last write
	kept  *chunks                 // nil if none are, which keeps a roll in a cache line
	who   []*entry                // whose objects they are
}

// chunks are the objects of a roll. All but the last are full.
type chunks struct {
	list  []chunk
	epoch uint64 // counts views
}

// chunk is a part of a roll. Its objects may be written if it is of the chunks' epoch;
// others are in a view.
type chunk struct {
	objs  []any
	epoch uint64
}

const (
	chunkLen = 256
	shortLen = 16
)

// share makes a view, for one who may ask again: chunks are kept from then on. The caller has
// the writers' lock.
func (r *roll) share() []chunk {
	if v := r.view.Load(); v != nil {
		return *v
	}
	if r.kept == nil && len(r.who) > shortLen {
		r.kept = &chunks{list: r.gather()}
	}
	var view []chunk
	if r.kept != nil {
		view = r.kept.list
	} else {
		view = r.gather()
	}
	r.view.Store(&view)
	return view
}

// gather makes the chunks of a roll of which none are kept.
func (r *roll) gather() (list []chunk) {
	for who := range slices.Chunk(r.who, chunkLen) {
		objs := make([]any, len(who))
		for i, e := range who {
			objs[i] = e.slot.load()
		}
		list = append(list, chunk{objs: objs})
	}
	return list
}

// own makes the chunks, but not yet what is in them, the writers' again.
func (r *roll) own() {
	if r.view.Load() == nil {
		return
	}
	r.view.Store(nil)
	if c := r.kept; c != nil {
		c.epoch++
		c.list = slices.Clone(c.list)
	}
}

// at returns a chunk whose objects may be changed, since own.
func (c *chunks) at(i int) *chunk {
	at := &c.list[i]
	if at.epoch != c.epoch {
		at.objs, at.epoch = slices.Clone(at.objs), c.epoch
	}
	return at
}

// set puts an object in the place of another. For most rolls there is nothing to be done, and
// not even a call.
func (r *roll) set(pos int32, obj any) {
	if r.kept != nil || r.view.Load() != nil {
		r.put(pos, obj)
	}
}

func (r *roll) put(pos int32, obj any) {
	r.own()
	if r.kept != nil {
		r.kept.at(int(pos / chunkLen)).objs[pos%chunkLen] = obj
	}
}

// add appends an object and returns where it is.
func (r *roll) add(e *entry, obj any) (pos int32) {
	pos = int32(len(r.who))
	r.own()
	r.who = append(r.who, e)
	c := r.kept
	if c == nil {
		return pos
	}
	if pos%chunkLen == 0 {
		c.list = append(c.list, chunk{epoch: c.epoch})
	}
	last := c.at(int(pos / chunkLen))
	last.objs = append(last.objs, obj)
	return pos
}

func (r *roll) remove(pos int32) {
	last := int32(len(r.who) - 1)
	at, in := int(last/chunkLen), last%chunkLen
	r.own()
	if pos != last {
		moved := r.who[last]
		r.who[pos] = moved
		moved.in(r).pos = pos
		if r.kept != nil {
			r.set(pos, r.kept.list[at].objs[in])
		}
	}
	r.who[last] = nil
	r.who = r.who[:last]
	if last > chunkLen && int(last) < cap(r.who)/4 {
		r.who = slices.Clone(r.who)
	}
	if r.kept == nil {
		return
	}
	c := r.kept.at(at)
	c.objs[in] = nil
	c.objs = c.objs[:in]
	if last == 0 {
		r.kept = nil // from the next view on
	} else if in == 0 {
		*c = chunk{}
		r.kept.list = r.kept.list[:at]
	}
}

// objectsOf copies a view.
func objectsOf(view []chunk) []any {
	n := 0
	if last := len(view) - 1; last >= 0 {
		n = last*chunkLen + len(view[last].objs)
	}
	out := make([]any, 0, n)
	for i := range view {
		out = append(out, view[i].objs...)
	}
	return out
}
