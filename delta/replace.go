package delta

import (
	"slices"

	"github.com/tarnproject/tarn/object"
)

// Replace tells the whole state of a scope, as a list gave it, and sets the scope's
// mark; a list without items and without a version removes that mark, as of a namespace that
// is not watched any more. In a batch it is one delta with the List; what was known in that scope and is
// not listed is for the consumer to delete. By Pop every listed key gets a Replaced
// delta, and every other key of the scope that exists a Deleted one, marked Unknown,
// with the newest object known. An item that is Held is told with the object held,
// one that has an Err by no delta, but counts as present; if one is so broken that it
// has no key, it may be any, and nothing is deleted.
//
// The FIFO owns the list from then on. The error is [ErrClosed].
func (f *FIFO[T]) Replace(list object.List[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(); err != nil {
		return err
	}
	f.marks.list(list.Mark, len(list.Items))
	during := f.flight != nil
	initial := false
	if f.sync == awaiting {
		// A list that tells nothing has nothing to wait for.
		initial = len(list.Items) > 0 ||
			len(f.vanished(f.pending, nil, &wholeList[T]{List: &list, during: during})) > 0
	}
	f.enqueue(&Delta[T]{Type: Replaced, List: &list}, initial)
	f.pending.lists[len(f.pending.lists)-1].during = during
	f.populate()
	f.consumers.wake()
	return nil
}

// explode takes the pending lists apart for Pop.
func (f *FIFO[T]) explode() {
	if len(f.pending.lists) == 0 {
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
// lists, another log, in which each list has become the deltas it stands for.
func (f *FIFO[T]) exploded() *log[T] {
	if len(f.pending.lists) == 0 {
		return f.pending
	}
	size := f.pending.live
	for i := range f.pending.lists {
		size += len(f.pending.lists[i].Items)
	}
	out := &log[T]{deltas: make([]Delta[T], 0, size), links: make([]link, 0, size)}
	n := 0 // of lists taken apart
	for i := f.pending.head; i < len(f.pending.deltas); i++ {
		d := f.pending.deltas[i]
		if d.Type == 0 {
			continue
		}
		initial := f.pending.isInitial(i)
		if d.List == nil {
			out.add(&d, initial)
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
	t := Replaced
	if f.opts.ReplacedAsSync {
		t = Sync
	}
	for i := range w.Items {
		item := &w.Items[i]
		var obj T
		switch {
		case item.Err != nil:
			continue
		case item.Held:
			var ok bool
			if obj, ok = f.held(item.Key, out, w); !ok {
				continue // nobody has it: present, but there is nothing to tell
			}
		default:
			obj = item.Value()
		}
		out.add(&Delta[T]{Type: t, Key: item.Key, Object: obj}, initial)
	}
	for _, t := range vanished {
		out.add(&Delta[T]{Type: Deleted, Unknown: true, Key: t.Key, Object: t.Object}, initial)
	}
}

// vanished returns, in order of their keys, the objects that exist after before, which
// is what was pending when a list came, and that the list says do not. earlier are the
// lists in before, which are taken apart there: what they lack has vanished already.
func (f *FIFO[T]) vanished(before *log[T], earlier []wholeList[T], w *wholeList[T]) []object.Tombstone[T] {
	var gone []object.Tombstone[T]
	before.index()
	for i := before.head; i < len(before.deltas); i++ {
		d := &before.deltas[i]
		if d.Type != 0 && d.Type != Deleted && before.links[i].gap == 0 && w.lacks(d.Key) {
			gone = append(gone, object.Tombstone[T]{Key: d.Key, Object: d.Object})
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
		if obj, ok := f.exists(key, handed); ok {
			gone = append(gone, object.Tombstone[T]{Key: key, Object: obj})
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
	slices.SortFunc(gone, func(a, b object.Tombstone[T]) int { return a.Key.Compare(b.Key) })
	return slices.CompactFunc(gone, func(a, b object.Tombstone[T]) bool { return a.Key == b.Key })
}
