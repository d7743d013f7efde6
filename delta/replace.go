package delta

import (
	"slices"

	"github.com/tarnproject/tarn/object"
)

// Replace queues the complete state of a scope, from a list, and sets the scope's mark. A list
// without items and without a version removes the mark, for a namespace that is no longer
// watched. In a batch a Replace is one change with the List; the consumer deletes its objects
// in that scope that are not in the list. With Pop every listed key gets a Replaced delta, and
// every other existing key of the scope a Deleted one with Unknown set and the newest known
// state. An item with Held set is returned with the object held. An item with Err gets no
// delta but counts as present; if it has no key, nothing is deleted. A list with a Part is for
// PopBatch: Pop deletes nothing because of it.
//
// The FIFO owns the list from then on. The error is [ErrClosed].
func (f *FIFO[T]) Replace(list object.List[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	f.replace(&list)
	f.consumers.wake()
	return nil
}

func (f *FIFO[T]) replace(list *object.List[T]) {
	f.marks.list(list.Mark, len(list.Items))
	during := f.flight != nil
	initial := false
	if f.sync == awaiting {
		// A list without effect has nothing to wait for.
		initial = len(list.Items) > 0 ||
			len(f.vanished(f.pending, nil, &wholeList[T]{List: list, during: during})) > 0
	}
	f.enqueue(&object.Change[T]{Kind: object.Replaced, List: list}, initial)
	f.pending.lists[len(f.pending.lists)-1].during = during
	f.populate()
}

// explode expands the pending lists for Pop.
func (f *FIFO[T]) explode() {
	if !f.pending.folded() {
		return
	}
	whole := f.pending
	f.pending = f.exploded()
	f.recycle(whole)
	f.recycle(f.before)
	f.before = nil
	f.checkSynced()
	if f.roomy() {
		f.producers.wake()
	}
}

// exploded returns what is pending key by key: pending itself or, if that has
// lists, another log, in which each list has become the deltas it stands for. Quarantined changes
// have no state for Pop and are left out.
func (f *FIFO[T]) exploded() *log[T] {
	if !f.pending.folded() {
		return f.pending
	}
	size := f.pending.live
	for i := range f.pending.lists {
		size += len(f.pending.lists[i].Items)
	}
	out := &log[T]{deltas: make([]object.Change[T], 0, size), links: make([]link, 0, size)}
	n := 0 // of lists taken apart
	for i := f.pending.head; i < len(f.pending.deltas); i++ {
		d := f.pending.deltas[i]
		if d.Kind == 0 || d.Kind == object.Quarantined {
			continue
		}
		initial := f.pending.isInitial(i)
		if d.List == nil {
			f.add(out, &d, initial)
			continue
		}
		f.explodeList(n, initial, out)
		n++
	}
	out.age.oldest = f.pending.age.oldest
	return out
}

// explodeList appends to out, which has all that came before, what the nth list that
// is pending means for each key.
func (f *FIFO[T]) explodeList(n int, initial bool, out *log[T]) {
	w := &f.pending.lists[n]
	vanished := f.vanished(out, f.pending.lists[:n], w)
	kind := object.Replaced
	if f.opts.ReplacedAsSync {
		kind = object.Synced
	}
	for i := range w.Items {
		item := &w.Items[i]
		if item.Err != nil {
			continue
		}
		d := object.ChangeOf(kind, item)
		if item.Held {
			state, ok := f.held(item.Key, out, w)
			if !ok {
				continue // present, but its object is not known here
			}
			d.Value = state.Value
		}
		f.add(out, &d, initial)
	}
	for i := range vanished {
		f.add(out, &vanished[i], initial)
	}
}

// vanished returns, in order of their keys, the deletions of the objects that exist after
// before, which is what was pending when a list came, and that the list lacks. earlier are the
// lists in before, which are taken apart there: what they lack has vanished already.
func (f *FIFO[T]) vanished(before *log[T], earlier []wholeList[T], w *wholeList[T]) []object.Change[T] {
	var deletions []object.Change[T]
	vanish := func(state *object.Change[T]) {
		deletions = append(deletions, object.Change[T]{Kind: object.Deleted, Unknown: true, Key: state.Key, Value: state.Value})
	}
	before.index()
	for i := before.head; i < len(before.deltas); i++ {
		d := &before.deltas[i]
		if d.Kind != 0 && d.Kind != object.Deleted && before.links[i].gap == 0 && w.lacks(d.Key) {
			vanish(d)
		}
	}
	handed := f.handed(w)
	check := func(key object.Key) {
		if _, _, pending := before.lookup(key); pending || !w.lacks(key) {
			return
		}
		for i := range earlier {
			if earlier[i].lacks(key) {
				return
			}
		}
		if state, ok := f.exists(key, handed); ok {
			vanish(&state)
		}
	}
	if f.opts.Known != nil {
		for key := range f.opts.Known.Keys() {
			check(key)
		}
	}
	if handed != nil {
		handed.names(check)
	}
	slices.SortFunc(deletions, func(a, b object.Change[T]) int { return a.Key.Compare(b.Key) })
	return slices.CompactFunc(deletions, func(a, b object.Change[T]) bool { return a.Key == b.Key })
}
