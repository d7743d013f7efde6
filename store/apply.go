package store

import (
	"errors"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Kind says what happened to an object.
type Kind uint8

// The kinds of changes.
const (
	// Added: the object was not there before.
	Added Kind = iota + 1
	// Updated: another version of the same object.
	Updated
	// Deleted: the object is gone.
	Deleted
	// Resynced: nothing happened; the object is told again on request.
	Resynced
)

var kindNames = [...]string{"Invalid", "Added", "Updated", "Deleted", "Resynced"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}

// Change is what happened to one object. It keeps the objects it speaks of from being
// collected, and at most those older ones that snapshots of the time could see.
type Change[T any] struct {
	Kind Kind
	// Unknown marks a Deleted change whose New is not the final state of the object
	// but the last one that was known, because the deletion itself was not seen.
	Unknown bool

	// Key is the key of the object.
	Key object.Key

	old, new *version[T]
}

// Old returns the object as it was before; the zero value for Added.
func (c Change[T]) Old() (obj T) {
	if c.old == nil {
		return obj
	}
	return c.old.Value.load()
}

// New returns the object as it is now. For Deleted that is its final state as the
// server told it, or, where Unknown is set, the last state known.
func (c Change[T]) New() (obj T) {
	if c.new == nil {
		return obj
	}
	return c.new.Value.load()
}

// ErrNotHeld is wrapped by the error for a list item that was left undecoded because it
// was held, and is not any more. Whoever listed must list again.
var ErrNotHeld = errors.New("store: a listed object that should be held is not")

// Apply makes a batch of deltas one transaction, and appends to changes what it changed,
// in order. Afterwards the store is the server's state at the batch's marks.
//
// Events that are not news change nothing: an object with the UID and version already
// held, an older one, or one not after the mark of its scope. An object with another
// UID than the one held is a deletion and an addition. A list deletes what it does not
// name in its scope; one of a new epoch replaces everything.
//
// The error names the objects that could not be stored ([*ObjectError], [ErrNotHeld]);
// everything else has been applied. An index function that fails is not an error here:
// see [Store.Stats].
func (s *Store[T]) Apply(b *delta.Batch[T], changes []Change[T]) ([]Change[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tx
	t.begin()
	t.changes = changes
	t.running = t.root
	t.follow = len(b.Marks) > 0
	for i := range b.Deltas {
		if d := &b.Deltas[i]; d.List != nil {
			t.list(d.List, d.List.Epoch)
		} else {
			t.event(d)
		}
	}
	for _, m := range b.Marks {
		t.root.setMark(m)
	}
	t.commit()
	changes, t.changes = t.changes, nil
	if len(t.problems) == 0 {
		return changes, nil
	}
	return changes, errors.Join(t.takeProblems()...)
}

func (t *txn[T]) changed(kind Kind, unknown bool, key object.Key, old, new *version[T]) {
	t.changes = append(t.changes, Change[T]{Kind: kind, Unknown: unknown, Key: key, old: old, new: new})
}

// event applies one delta of one key.
func (t *txn[T]) event(d *delta.Delta[T]) {
	s := t.store
	r := s.objects.Lookup(d.Key)
	held := r.Live()
	if d.Type == delta.Deleted && d.Unknown {
		if held != nil {
			t.remove(d.Key, r)
			t.changed(Deleted, true, d.Key, held, held)
		}
		return
	}
	desc, err := s.describe(d.Object)
	if err != nil {
		t.problems = append(t.problems, &ObjectError{Key: d.Key, Cause: err})
		return
	}
	id := desc.identity
	switch d.Type {
	case delta.Deleted:
		t.late(d.Key, id) // for the mark alone
		if held != nil && s.identityOf(r).deletedBy(id) {
			t.remove(d.Key, r)
			t.changed(Deleted, false, d.Key, held, t.final(held, d.Object, id))
		}
		if id.version.Ordered() {
			if t.deleted == nil {
				t.deleted = map[object.Key]object.Version{}
			}
			t.deleted[d.Key] = id.version
		}
	case delta.Sync:
		if held != nil && (!id.version.Known() || s.identityOf(r).same(id)) {
			t.changed(Resynced, false, d.Key, held, held)
			return
		}
		t.upsert(d.Key, r, d.Object, id)
	case delta.Added, delta.Updated:
		if t.late(d.Key, id) || held != nil && s.identityOf(r).notBefore(id) {
			return
		}
		t.upsert(d.Key, r, d.Object, id)
	case delta.Replaced:
		if held != nil && s.identityOf(r).same(id) {
			return
		}
		t.upsert(d.Key, r, d.Object, id)
	}
}

// late reports whether an event comes after others that were later: not after the mark of its
// scope, nor after the deletion of its key in this batch. Versions without an order are
// never late. An event that is not late moves the running mark.
func (t *txn[T]) late(k object.Key, id identity) bool {
	if id.uid == "" || !id.version.Ordered() {
		return false
	}
	if deleted, ok := t.deleted[k]; ok && id.version.NotAfter(deleted) {
		return true
	}
	m := t.running.covering(k)
	if m == nil {
		return false
	}
	if order, ok := id.version.Compare(m.Version); ok && order <= 0 {
		return true
	}
	if t.follow {
		moved := *m
		moved.Version = id.version
		t.running.setMark(moved)
	}
	return false
}

// deletedBy reports whether a deletion with identity d is one of the object held as h.
// An old server sends the object's own version with it, so an equal version will do.
func (h identity) deletedBy(d identity) bool {
	if h.otherLife(d) {
		return false
	}
	order, ok := d.version.Compare(h.version)
	return !ok || order >= 0
}

// notBefore reports whether h is certainly as new as the event e about the same object.
func (h identity) notBefore(e identity) bool {
	return h.uid != "" && h.uid == e.uid && e.version.NotAfter(h.version)
}

// upsert stores an object that is news.
func (t *txn[T]) upsert(key object.Key, r ref[T], obj T, id identity) ref[T] {
	held := r.Live()
	r, err := t.put(key, r, obj, id, lenient)
	switch {
	case err != nil:
		t.problems = append(t.problems, err)
	case held == nil:
		t.changed(Added, false, key, nil, r.Head)
	case t.store.identity(held).otherLife(id):
		t.changed(Deleted, true, key, held, held)
		t.changed(Added, false, key, nil, r.Head)
	default:
		t.changed(Updated, false, key, held, r.Head)
	}
	return r
}

// final returns the final state of a deleted object, as a version that is in no chain.
// Where the form cannot hold it, the last state held will do.
func (t *txn[T]) final(held *version[T], obj T, id identity) *version[T] {
	val, err := t.store.hold(obj, id)
	if err != nil {
		return held
	}
	return mvcc.Loose(val)
}

// list makes a list's items the whole content of its scope.
func (t *txn[T]) list(l *object.List[T], epoch object.Epoch) {
	s := t.store
	afresh := t.root.markOf(l.Scope) != nil && epoch != t.root.epochOf(l.Scope)
	t.seen.reset(s.objects.Limit())
	s.objects.Reserve(max(0, len(l.Items)-s.objects.Len()))
	seen, nameless := 0, false
	for i := range l.Items {
		item := &l.Items[i]
		r := s.objects.Lookup(item.Key)
		held := r.Live()
		id := identity{uid: item.UID, version: item.Version}
		switch {
		case item.Err != nil:
			// It is there, but nobody can read it: the last good state stays. Without
			// even a key it may be any.
			nameless = nameless || item.Key.IsZero()
			if afresh && held != nil {
				s.foreign[r.ID] = true
			}
		case item.Held:
			if held == nil || afresh || !s.identityOf(r).same(id) {
				t.problems = append(t.problems, &ObjectError{Key: item.Key, Cause: ErrNotHeld})
			}
		case held != nil && !afresh && s.direct && pointerOf(held.Value.object) == pointerOf(item.Object):
			// The very object that is held.
		case held == nil || afresh || !s.identityOf(r).same(id):
			r = t.upsert(item.Key, r, item.Object, id)
		}
		if r.Live() != nil && l.Scope.Covers(item.Key) && t.seen.add(r.ID) {
			seen++
		}
	}
	t.flush()
	if !nameless {
		t.vanish(l.Scope, seen)
	}
	mark := object.Mark{Scope: l.Scope, Epoch: epoch, Version: l.Version}
	t.root.setMark(mark)
	t.running.setMark(mark)
	clear(t.deleted)
}

// vanish deletes what is in the scope and was not seen.
func (t *txn[T]) vanish(scope object.Scope, seen int) {
	objects := t.store.objects
	if scope == object.Everything && seen == t.root.objects {
		return
	}
	t.store.order.From(object.Key{Namespace: string(scope)}, func(cells []mvcc.Cell[uint32]) bool {
		for _, c := range cells {
			id := c.Elem
			if !scope.Covers(objects.Key(id)) {
				return false
			}
			if !t.seen.has(id) && !objects.Head(id).Dead() {
				t.gone = append(t.gone, id)
			}
		}
		return true
	})
	for _, id := range t.gone {
		last := objects.Head(id)
		key := t.store.keep(objects.Key(id), last)
		t.remove(key, ref[T]{ID: id, Head: last})
		t.changed(Deleted, true, key, last, last)
	}
	t.gone = t.gone[:0]
}
