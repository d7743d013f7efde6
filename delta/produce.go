package delta

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tarnproject/tarn/object"
)

// Add queues an object that a watch reported as created. The error is [ErrClosed] or that of the accessor.
func (f *FIFO[T]) Add(obj T) error { return f.queue(object.Added, obj) }

// Update queues a new version of an object, like Add.
func (f *FIFO[T]) Update(obj T) error { return f.queue(object.Updated, obj) }

// Delete queues the deletion of an object; obj is its last state. It is dropped when the
// key is neither known nor pending (Q05). Its errors are those of Add.
func (f *FIFO[T]) Delete(obj T) error { return f.queue(object.Deleted, obj) }

// DeleteUnknown queues the deletion of an object whose deletion was not observed: the
// tombstone's object, which may be the zero value, is the last known state. Otherwise it is
// like Delete.
func (f *FIFO[T]) DeleteUnknown(t object.Tombstone[T]) error {
	return f.apply(object.Change[T]{Kind: object.Deleted, Unknown: true, Key: t.Key, Value: object.Decoded(t.Object)})
}

func (f *FIFO[T]) queue(kind object.Kind, obj T) error {
	item, err := f.item(obj)
	if err != nil {
		return fmt.Errorf("delta: cannot queue an object: %w", err)
	}
	return f.apply(object.ChangeOf(kind, &item))
}

// item reads the identity of an object. A panic of the accessor becomes an error, so that one
// object does not end the producer.
func (f *FIFO[T]) item(obj T) (item object.Item[T], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the accessor panicked on a value of type %T: %v", obj, p)
		}
	}()
	return object.ItemOf(f.acc, obj)
}

// Replace queues the complete state of a scope, from a list: every listed key gets a Replaced delta, and
// every other existing key of the scope a Deleted one with Unknown set and the newest known
// state. An item with Held set is returned with the object held. An item with Err gets no
// delta but counts as present; if it has no key, nothing is deleted. Nothing is deleted because of a
// list with a Part either. The error is [ErrClosed].
func (f *FIFO[T]) Replace(list object.List[T]) error {
	return f.apply(object.Change[T]{Kind: object.Replaced, List: &list})
}

// Apply implements [object.Sink]: it queues the changes of a batch at once. A change with a List is a
// [FIFO.Replace]. A Quarantined change is left out, because it has no object, and so are the marks. The
// error is [ErrClosed].
func (f *FIFO[T]) Apply(b *object.Batch[T]) error { return f.apply(b.Changes...) }

func (f *FIFO[T]) apply(changes ...object.Change[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	for i := range changes {
		first, c := !f.populated, &changes[i]
		f.populated = true
		switch {
		case c.List != nil:
			f.replace(c.List, first)
		case c.Kind == object.Quarantined, c.Kind == object.Deleted && !f.deletable(c):
		default:
			f.put(c, false)
		}
		f.checkSynced()
	}
	return nil
}

// deletable reports whether a deletion is of an object that is pending or exists. If that is being deleted,
// the consumer may find that the deletion in flight is stale and this one is not.
func (f *FIFO[T]) deletable(d *object.Change[T]) bool {
	if f.pending[d.Key] != nil {
		return true
	}
	if before := f.newest(d.Key); before != nil {
		return before.Kind != object.Deleted || differ(before, d)
	}
	_, ok := f.known(d.Key)
	return ok
}

func (f *FIFO[T]) replace(list *object.List[T], first bool) {
	kind := object.Replaced
	if f.opts.ReplacedAsSync {
		kind = object.Synced
	}
	listed := make(map[object.Key]struct{}, len(list.Items))
	complete := list.Part.IsZero()
	for i := range list.Items {
		item := &list.Items[i]
		listed[item.Key] = struct{}{}
		complete = complete && (item.Err == nil || !item.Key.IsZero())
		d, ok := object.ChangeOf(kind, item), item.Err == nil
		if item.Held {
			d.Value, ok = f.held(item.Key)
		}
		if ok {
			f.put(&d, first)
		}
	}
	if !complete {
		return
	}
	var vanished []object.Key
	check := func(key object.Key) {
		if _, ok := listed[key]; !ok && list.Scope.Covers(key) {
			vanished = append(vanished, key)
		}
	}
	for e := f.first; e != nil; e = e.next {
		check(e.key())
	}
	if f.flight != nil {
		check(f.flight.key())
	}
	if f.opts.Known != nil {
		for key := range f.opts.Known.Keys() {
			check(key)
		}
	}
	slices.SortFunc(vanished, object.Key.Compare)
	for _, key := range vanished { // the second of two equal ones is deleted already
		if state, ok := f.exists(key); ok {
			f.put(&object.Change[T]{Kind: object.Deleted, Unknown: true, Key: key, Value: state}, first)
		}
	}
}

// Resync queues the state of every known key that has nothing pending, as Synced
// deltas. It does nothing without [Options.Known]. Its error is [ErrClosed].
func (f *FIFO[T]) Resync() error {
	if f.opts.Known == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	for key := range f.opts.Known.Keys() {
		f.resync(key)
	}
	if f.flight != nil {
		f.resync(f.flight.key())
	}
	return nil
}

func (f *FIFO[T]) resync(key object.Key) {
	if f.pending[key] != nil {
		return
	}
	state, ok := f.exists(key)
	if !ok {
		return
	}
	d := object.Change[T]{Kind: object.Synced, Key: key, Value: state}
	if item, err := f.item(state.Get()); err == nil {
		d.UID, d.Version = item.UID, item.Version
	}
	f.put(&d, false)
}

var errForeign = errors.New("delta: cannot put back: want deltas of one key, each with a type and none with a list")

// AddIfAbsent puts deltas from Pop back at the end of the queue, unless newer deltas of their
// key are pending. A process function should return [Requeue] instead. AddIfAbsent also works after
// Close. The error means that the deltas are not of one key.
func (f *FIFO[T]) AddIfAbsent(deltas Deltas[T]) error {
	for i := range deltas {
		d := &deltas[i]
		if d.Key != deltas[0].Key || d.Kind == 0 || d.Kind > object.Synced || d.List != nil {
			return errForeign
		}
	}
	if len(deltas) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.populated = true; f.pending[deltas[0].Key] == nil {
		for i := range deltas {
			f.put(&deltas[i], false)
		}
	}
	f.checkSynced()
	return nil
}
