package store

import (
	"errors"
	"slices"
	"unsafe"

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
// collected.
type Change[T any] struct {
	Kind Kind
	// Unknown marks a Deleted change whose New is not the final state of the object
	// but the last one that was known, because the deletion itself was not seen.
	Unknown bool
	// Rewound marks an Updated change whose Old is, or may be, of an earlier epoch than New:
	// the server's history began anew between them. So neither their versions nor their
	// generations compare.
	Rewound bool

	// Key is the key of the object.
	Key object.Key

	old, new value[T]
}

// Old returns the object as it was before; the zero value for Added.
func (c Change[T]) Old() T { return c.old.load() }

// New returns the object as it is now. For Deleted that is its final state as the
// server told it, or, where Unknown is set, the last state known.
func (c Change[T]) New() T { return c.new.load() }

// ErrNotHeld is wrapped by the error for a list item that was left undecoded because it
// was held, and is not any more. Whoever listed must list again.
var ErrNotHeld = errors.New("store: a listed object that should be held is not")

// Apply makes a batch of deltas one transaction, and appends to changes what it changed,
// in order. Afterwards the store is the server's state at the batch's marks; see
// [Snapshot.Version].
//
// Events that are not news change nothing (W14): an addition or update of the UID held that is
// not after the version held, and one that is not after the newest version its scope has seen, so
// that none revives what was deleted. A deletion of the UID held applies when its version is the one
// held or a later one, wherever the scope is (W15). A deletion of another UID applies when it
// is after the version held and not before what the scope has seen: the object held was deleted
// before that one was created. An addition or update with another UID than the one held is a
// deletion and an addition. A list deletes what it does not name in its scope; one of a new epoch
// replaces everything; one with neither items nor a version also removes the mark of its scope.
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
	t.follow = len(b.Marks) > 0
	for some := range slices.Chunk(b.Deltas, mvcc.Ahead) {
		t.glance(some)
		for i := range some {
			if d := &some[i]; d.List != nil {
				t.list(d.List, d.List.Epoch)
			} else {
				t.event(d, i)
			}
		}
	}
	for _, m := range b.Marks {
		t.advance(m)
	}
	t.commit()
	changes, t.changes = t.changes, nil
	if len(t.problems) == 0 {
		return changes, nil
	}
	return changes, errors.Join(t.takeProblems()...)
}

func (t *txn[T]) changed(kind Kind, unknown bool, key object.Key, old, new value[T]) {
	t.changes = append(t.changes, Change[T]{Kind: kind, Unknown: unknown, Key: key, old: old, new: new})
}

// event applies one delta of one key, of which glance has seen what it says at i, some events
// ago. An id does not change within a transaction; it may have come to be.
func (t *txn[T]) event(d *delta.Delta[T], i int) {
	s, r := t.store, t.ahead.refs[i]
	if !r.Known() {
		r = s.objects.Lookup(d.Key)
	}
	live := s.objects.Live(r)
	var err error
	if !d.Unknown {
		err = t.ahead.errs[i]
	}
	if err != nil {
		t.problems = append(t.problems, &ObjectError{Key: d.Key, Cause: err})
	}
	if d.Type == delta.Deleted && (d.Unknown || err != nil) {
		if live != nil {
			held := s.value(live)
			t.remove(d.Key, r)
			t.changed(Deleted, true, d.Key, held, held)
		} else {
			s.stale++
		}
		return
	}
	if err != nil {
		return
	}
	id := &t.ahead.identities[i]
	var held identity
	if live != nil {
		held = s.identityOf(r, id)
	}
	switch d.Type {
	case delta.Deleted:
		order, other := t.follows(d.Key, id), live != nil && held.otherLife(id)
		if live == nil || !held.deletedBy(id) || other && order < 0 {
			s.stale++
		} else {
			was := s.value(live)
			t.remove(d.Key, r)
			if other {
				t.changed(Deleted, true, d.Key, was, was)
			} else {
				t.changed(Deleted, false, d.Key, was, t.final(was, d.Object, id))
			}
		}
		if id.version.Ordered() {
			if t.deleted == nil {
				t.deleted = map[object.Key]object.Version{}
			}
			t.deleted[d.Key] = id.version
		}
	case delta.Sync:
		if live != nil && (!id.version.Known() || held.same(id)) {
			t.changed(Resynced, false, d.Key, s.value(live), s.value(live))
			return
		}
		t.upsert(d.Key, r, d.Object, i, id, live != nil && held.otherLife(id))
	case delta.Added, delta.Updated:
		if t.follows(d.Key, id) <= 0 || live != nil && held.notBefore(id) {
			s.stale++
			return
		}
		t.upsert(d.Key, r, d.Object, i, id, live != nil && held.otherLife(id))
	case delta.Replaced:
		if live != nil && held.same(id) {
			return
		}
		t.upsert(d.Key, r, d.Object, i, id, live != nil && held.otherLife(id))
	}
}

// follows compares an event with the newest of its scope, or of its key's deletion in this
// batch: -1 if it is of an earlier version, 0 if it is of the same, else +1. One that is not +1 is
// late. Versions without an order are never late. An event that is not late moves the place
// of its scope.
func (t *txn[T]) follows(k object.Key, id *identity) int {
	if id.uid == "" || !id.version.Ordered() {
		return +1
	}
	if deleted, ok := t.deleted[k]; ok {
		if order, ok := id.version.Compare(deleted); ok && order <= 0 {
			return order
		}
	}
	p := t.store.covering(k)
	if p == nil {
		return +1
	}
	if order, ok := id.version.Compare(p.seen); ok && order <= 0 {
		return order
	}
	if t.follow {
		p.seen = id.version
	}
	return +1
}

// upsert stores an object that is news. other says that another object has its name now.
// seen is what write takes.
func (t *txn[T]) upsert(key object.Key, r ref, obj T, seen int, id *identity, other bool) ref {
	live := t.store.objects.Live(r)
	r, err := t.put(key, r, obj, seen, id, lenient)
	return t.upserted(key, live, r, other, err)
}

// upserted notes that the object of a key, which was live, is now what r says, or why not.
func (t *txn[T]) upserted(key object.Key, live unsafe.Pointer, r ref, other bool, err error) ref {
	s := t.store
	if err != nil {
		t.problems = append(t.problems, err)
		return r
	}
	is := s.value(s.objects.Live(r))
	var was value[T]
	if live != nil {
		was = s.value(live)
	}
	switch {
	case live == nil:
		t.changed(Added, false, key, was, is)
	case other:
		t.changed(Deleted, true, key, was, was)
		t.changed(Added, false, key, value[T]{}, is)
	default:
		t.changed(Updated, false, key, was, is)
		t.changes[len(t.changes)-1].Rewound = t.afresh || t.estranged
	}
	return r
}

// final returns the final state of a deleted object. Where the form cannot hold it, the last
// state held will do.
func (t *txn[T]) final(held value[T], obj T, id *identity) value[T] {
	p, err := t.store.hold(obj, id)
	if err != nil {
		return held
	}
	return t.store.value(p)
}

// list makes a list's items the whole content of its scope.
func (t *txn[T]) list(l *object.List[T], epoch object.Epoch) {
	s := t.store
	before, marked := s.markOf(l.Scope)
	t.afresh = marked && epoch != before.Epoch
	if t.afresh {
		t.root.rewinds++
	}
	t.seen.reset(s.objects.Limit())
	s.objects.Reserve(max(0, len(l.Items)-s.objects.Len()))
	ahead := s.lookahead(l.Items)
	seen, nameless := 0, false
	for i := range l.Items {
		item := &l.Items[i]
		r := ahead.lookup(i, item.Key)
		nameless = nameless || item.Err != nil && item.Key.IsZero()
		r = t.item(item, r)
		if s.objects.Live(r) != nil && l.Scope.Covers(item.Key) && t.seen.add(r.ID) {
			seen++
		}
	}
	t.flush()
	if !nameless {
		t.vanish(l.Scope, seen)
	} else if t.afresh {
		t.unseen(l.Scope, s.estrange)
	}
	t.afresh = false
	if len(l.Items) == 0 && !l.Version.Known() {
		t.dropMark(l.Scope)
	} else {
		t.setMark(object.Mark{Scope: l.Scope, Epoch: epoch, Version: l.Version}).seen = l.Version
	}
	clear(t.deleted)
}

// item applies one item of a list, whose key is at r.
func (t *txn[T]) item(item *object.Item[T], r ref) ref {
	s := t.store
	live := s.objects.Live(r)
	if item.Err != nil {
		// It is there, but nobody can read it: the last good state stays.
		if t.afresh && live != nil {
			s.estrange(r.ID)
		}
		return r
	}
	if live != nil && !t.afresh && !item.Held && s.direct && live == pointerOf(item.Object) {
		return r // the very object that is held
	}
	id := identityFrom(item.UID, item.Version)
	var held identity
	if live != nil {
		held = s.identityOf(r, &id)
		if !t.afresh && held.same(&id) {
			return r
		}
	}
	if item.Held {
		t.problems = append(t.problems, &ObjectError{Key: item.Key, Cause: ErrNotHeld})
		return r
	}
	other := live != nil && held.otherLife(&id)
	if item.Rest == nil {
		return t.upsert(item.Key, r, item.Object, unseen, &id, other)
	}
	r, err := t.settle(item.Key, r, item.Rest, &id)
	return t.upserted(item.Key, live, r, other, err)
}

// vanish deletes what is in the scope and was not seen.
func (t *txn[T]) vanish(scope object.Scope, seen int) {
	objects := t.store.objects
	if scope == object.Everything && seen == t.root.objects {
		return
	}
	t.unseen(scope, func(id uint32) { t.gone = append(t.gone, id) })
	for _, id := range t.gone {
		r := mvcc.RefTo(id)
		last := objects.Live(r)
		key, was := t.store.keep(objects.Key(id), last), t.store.value(last)
		t.remove(key, r)
		t.changed(Deleted, true, key, was, was)
	}
	t.gone = t.gone[:0]
}

// unseen calls f for what lives in the scope and was not seen.
func (t *txn[T]) unseen(scope object.Scope, f func(id uint32)) {
	objects := t.store.objects
	t.store.order.From(object.Key{Namespace: string(scope)}, func(cells []mvcc.Cell[uint32], marks uint64) bool {
		for i, c := range cells {
			id := c.Elem
			if mvcc.Gone(marks, i) {
				continue
			}
			if !scope.Covers(objects.Key(id)) {
				return false
			}
			if !t.seen.has(id) && objects.Live(mvcc.RefTo(id)) != nil {
				f(id)
			}
		}
		return true
	})
}

// estrange notes that the object of an id is of an earlier epoch.
func (s *Store[T]) estrange(id uint32) {
	s.foreign[id] = true
	s.note(id, &brief{})
}
