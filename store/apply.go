package store

import (
	"errors"
	"slices"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// ErrNotHeld is wrapped by the error for a list item that was not decoded because the store held
// it, and that was deleted meanwhile. The caller must list again.
var ErrNotHeld = errors.New("store: a listed object that should be held is not")

// Apply applies a batch as one transaction, and appends to changes what it changed, in order. Afterwards the store is the server's state at the batch's marks; see
// [Snapshot.Version].
//
// Events that are not news change nothing (W14): an addition or update of the UID held that is
// not after the version held, and one that is not after the newest version its scope has seen, so
// that none revives what was deleted. A deletion of the UID held applies when its version is the one
// held or a later one, wherever the scope is (W15). A deletion of another UID applies when it
// is after the version held and not before what the scope has seen: the object held was deleted
// before that one was created. An addition or update with another UID than the one held is a
// deletion and an addition. An object that cannot be decoded keeps the last good state of its UID
// and deletes that of another. A list deletes what it does not name in its scope; one of a new epoch
// replaces everything; one with neither items nor a version also removes the mark of its scope. What
// is held outside of a list's Shard is removed and reported as Left, not as deleted. What is in the
// Shard and not in the list's Part stays.
//
// With [Options.Verbatim] none of this is checked: the last event wins. An addition or update is an
// addition if the key is not held, and otherwise one update, also where UID or version are
// those held, or the UID is another. A deletion is reported even if its key is not held, with its
// own object as the prior one, unless only the key is known. A list reports what it deletes first,
// and then an addition or an update for each item in the order of the list; an item with Held set
// is an update from the object held to itself.
//
// The error names the objects that could not be stored ([*ObjectError], [ErrNotHeld]);
// everything else has been applied. An index function that fails is not an error here:
// see [Store.Stats].
func (s *Store[T]) Apply(b *object.Batch[T], changes []object.Change[T]) ([]object.Change[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tx
	t.begin()
	t.changes = changes
	t.follow = len(b.Marks) > 0
	var keys [mvcc.Ahead]object.Key
	var refs [mvcc.Ahead]ref
	for some := range slices.Chunk(b.Changes, mvcc.Ahead) {
		for i := range some {
			keys[i] = some[i].Key
			t.preload(keys[i].Name, some[i].UID, some[i].Version)
		}
		s.objects.LookupAll(keys[:len(some)], refs[:])
		for i := range some {
			switch d := &some[i]; {
			case d.List != nil:
				t.list(d.List, d.List.Epoch)
			case s.verbatim && d.Kind != object.Synced && d.Kind != object.Quarantined:
				t.verbatim(d, t.again(d.Key, refs[i]))
			default:
				t.event(d, t.again(d.Key, refs[i]))
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

func (t *txn[T]) changed(kind object.Kind, unknown bool, key object.Key, id *identity, prior, value object.Value[T]) {
	t.changes = append(t.changes, object.Change[T]{Kind: kind, Unknown: unknown, Key: key, UID: id.uid, Version: id.version,
		Value: value, Prior: prior})
}

// again returns the ref of a key that was at r earlier in the transaction. A known key keeps its
// id for the whole transaction; an unknown one may have been created since.
func (t *txn[T]) again(k object.Key, r ref) ref {
	if r.Known() {
		return r
	}
	return t.store.objects.Lookup(k)
}

// preload loads the ends of each text. They are far apart in memory, and the processor waits for those
// of many objects at once. The row "Replace with nothing changed" of the benchmarks pays for it.
func (t *txn[T]) preload(name string, uid object.UID, version object.Version) {
	if len(name) > 0 && len(uid) > 0 && len(version) > 0 {
		t.loaded += name[0] + name[len(name)-1] + uid[0] + uid[len(uid)-1] + version[0]
	}
}

// event applies one change of one key, which is at r.
func (t *txn[T]) event(d *object.Change[T], r ref) {
	s := t.store
	live := s.objects.Live(r)
	if d.Kind == object.Deleted && d.Unknown && d.UID == "" {
		if live != nil {
			t.deleteUnobserved(d.Key, r)
		} else {
			s.stale++
		}
		return
	}
	id := identityFrom(d.UID, d.Version)
	var held identity
	if live != nil {
		held = s.identityOf(r, &id)
	}
	switch d.Kind {
	case object.Deleted:
		order, other := t.follows(d.Key, &id), live != nil && held.otherUID(&id)
		switch {
		case live == nil || !held.deletedBy(&id) || other && order < 0:
			s.stale++
		case other || d.Unknown:
			t.deleteUnobserved(d.Key, r)
		default:
			was := s.value(live)
			t.remove(d.Key, r)
			t.changed(object.Deleted, false, d.Key, &id, was, s.reported(d.Value))
		}
		if id.version.Ordered() {
			if t.deleted == nil {
				t.deleted = map[object.Key]object.Version{}
			}
			t.deleted[d.Key] = id.version
		}
	case object.Synced:
		if live != nil && (!id.version.Known() || held.same(&id)) {
			is, value := s.identity(live), s.value(live)
			t.changed(object.Synced, false, d.Key, &is, value, value)
			return
		}
		t.upsert(d.Key, r, d.Value, &id, live != nil && held.otherUID(&id))
	case object.Added, object.Updated:
		if t.follows(d.Key, &id) <= 0 || live != nil && held.notBefore(&id) {
			s.stale++
			return
		}
		t.upsert(d.Key, r, d.Value, &id, live != nil && held.otherUID(&id))
	case object.Quarantined:
		why, bad := d.Value.Encoded.(object.Unreadable[T])
		switch {
		case !bad:
			t.readable(d.Key)
			return
		case t.follows(d.Key, &id) <= 0:
			s.stale++
			return
		case live != nil && held.otherUID(&id):
			t.deleteUnobserved(d.Key, r)
		}
		t.cannotRead(d.Key, &id, why.Err)
	case object.Replaced:
		if live != nil && held.same(&id) {
			return
		}
		t.upsert(d.Key, r, d.Value, &id, live != nil && held.otherUID(&id))
	}
}

// verbatim is event for a store that applies everything it is sent; see Options.Verbatim.
func (t *txn[T]) verbatim(d *object.Change[T], r ref) {
	s := t.store
	live, id := s.objects.Live(r), identityFrom(d.UID, d.Version)
	switch {
	case d.Kind != object.Deleted:
		t.upsert(d.Key, r, d.Value, &id, false)
	case live == nil && d.Unknown:
		s.stale++
	case live == nil:
		v := s.reported(d.Value)
		t.changed(object.Deleted, false, d.Key, &id, v, v)
	case d.Unknown:
		t.deleteUnobserved(d.Key, r)
	default:
		was := s.value(live)
		t.remove(d.Key, r)
		t.changed(object.Deleted, false, d.Key, &id, was, s.reported(d.Value))
	}
}

// deleteUnobserved deletes what is held at r, whose deletion was not observed.
func (t *txn[T]) deleteUnobserved(key object.Key, r ref) { t.drop(object.Deleted, key, r) }

// drop removes what is held at r, which was deleted or left the shard.
func (t *txn[T]) drop(kind object.Kind, key object.Key, r ref) {
	s := t.store
	live := s.objects.Live(r)
	id, was := s.identity(live), s.value(live)
	t.remove(key, r)
	t.changed(kind, true, key, &id, was, was)
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

// upsert stores an object that is news. other means that it is another object of the same name
// than the one held.
func (t *txn[T]) upsert(key object.Key, r ref, v object.Value[T], id *identity, other bool) ref {
	s := t.store
	live := s.objects.Live(r)
	r, err := t.put(key, r, v, id, lenient)
	if err != nil {
		t.problems = append(t.problems, err)
		return r
	}
	is := s.value(s.objects.Live(r))
	if live == nil {
		t.changed(object.Added, false, key, id, object.Value[T]{}, is)
		return r
	}
	was := s.value(live)
	if other {
		before := s.identity(live)
		t.changed(object.Deleted, true, key, &before, was, was)
		t.changed(object.Added, false, key, id, object.Value[T]{}, is)
		return r
	}
	t.changed(object.Updated, false, key, id, was, is)
	t.changes[len(t.changes)-1].Rewound = t.newEpoch || t.wasForeign
	return r
}

// list makes a list's items the whole content of its scope.
func (t *txn[T]) list(l *object.List[T], epoch object.Epoch) {
	s := t.store
	before, marked := s.markOf(l.Scope)
	t.newEpoch = marked && epoch != before.Epoch
	if t.newEpoch {
		t.root.rewinds++
	}
	first := len(t.changes)
	t.beginCure(l)
	t.seen.reset(s.objects.Limit())
	added := max(0, len(l.Items)-s.objects.Len())
	s.objects.Reserve(added)
	t.changes = slices.Grow(t.changes, added)
	seen, nameless := 0, false
	var keys [mvcc.Ahead]object.Key
	var refs [mvcc.Ahead]ref
	for some := range slices.Chunk(l.Items, mvcc.Ahead) {
		for i := range some {
			keys[i] = some[i].Key
			t.preload(keys[i].Name, some[i].UID, some[i].Version)
		}
		s.objects.LookupAll(keys[:len(some)], refs[:])
		for i := range some {
			item := &some[i]
			nameless = nameless || item.Err != nil && item.Key.IsZero()
			r := t.item(l.Scope, item, t.again(item.Key, refs[i]))
			if s.objects.Live(r) != nil && l.Scope.Covers(item.Key) && t.seen.add(r.ID) {
				seen++
			}
		}
	}
	for key := range t.cured {
		t.readable(key)
	}
	items := len(t.changes)
	t.deleteUnlisted(l, seen, nameless)
	switch {
	case !nameless && s.verbatim:
		deletionsFirst(t.changes[first:], items-first)
	case nameless && t.newEpoch:
		t.eachUnlisted(l.Scope, s.markForeign)
	}
	t.newEpoch = false
	if len(l.Items) == 0 && !l.Version.Known() {
		t.dropMark(l.Scope)
	} else {
		mark := l.Mark
		mark.Epoch = epoch
		if p := t.setMark(mark); l.Part.IsZero() {
			p.seen = l.Version
		}
	}
	clear(t.deleted)
}

// item applies one item of a list, whose key is at r.
func (t *txn[T]) item(scope object.Scope, item *object.Item[T], r ref) ref {
	s := t.store
	live := s.objects.Live(r)
	if item.Err != nil {
		// The server has it, but it cannot be decoded: the last good state of its UID stays.
		id, key := identityFrom(item.UID, item.Version), item.Key
		if key.IsZero() {
			key.Namespace = string(scope)
		}
		if t.cannotRead(key, &id, item.Err); live == nil {
			return r
		}
		if held := s.identityOf(r, &id); held.otherUID(&id) {
			t.deleteUnobserved(item.Key, r)
		} else if t.newEpoch {
			s.markForeign(r.ID)
		}
		return r
	}
	if s.verbatim {
		return t.verbatimItem(item, r)
	}
	if live != nil && !t.newEpoch && !item.Held && s.direct && item.Encoded == nil && live == pointerOf(item.Object) {
		return r // the same pointer
	}
	id := identityFrom(item.UID, item.Version)
	var held identity
	if live != nil {
		held = s.identityOf(r, &id)
		if !t.newEpoch && held.same(&id) {
			return r
		}
	}
	if item.Held {
		t.problems = append(t.problems, &ObjectError{Key: item.Key, Cause: ErrNotHeld})
		return r
	}
	return t.upsert(item.Key, r, item.Value, &id, live != nil && held.otherUID(&id))
}

// verbatimItem is item for a store that applies everything it is sent.
func (t *txn[T]) verbatimItem(item *object.Item[T], r ref) ref {
	s, id := t.store, identityFrom(item.UID, item.Version)
	if !item.Held {
		return t.upsert(item.Key, r, item.Value, &id, false)
	}
	if live := s.objects.Live(r); live != nil {
		if held := s.identityOf(r, &id); !t.newEpoch && held.same(&id) {
			is := s.value(live)
			t.changed(object.Updated, false, item.Key, &id, is, is)
			return r
		}
	}
	t.problems = append(t.problems, &ObjectError{Key: item.Key, Cause: ErrNotHeld})
	return r
}

// deletionsFirst moves the changes after the first n before them.
func deletionsFirst[T any](changes []object.Change[T], n int) {
	if n == 0 || n == len(changes) {
		return
	}
	items := slices.Clone(changes[:n])
	copy(changes[copy(changes, changes[n:]):], items)
}

// deleteUnlisted removes the objects of the scope that the list did not have: those outside of its
// shard left, and those in the part that it covers were deleted. If an item of the list is nameless, it
// may be any of the latter, and they stay.
func (t *txn[T]) deleteUnlisted(l *object.List[T], seen int, nameless bool) {
	objects := t.store.objects
	if l.Scope == object.Everything && seen == t.root.objects || nameless && l.Shard.IsZero() {
		return
	}
	t.eachUnlisted(l.Scope, func(id uint32) { t.missing = append(t.missing, id) })
	// The changes come in the order of their keys, whatever the ids.
	slices.SortFunc(t.missing, func(a, b uint32) int { return objects.Key(a).Compare(objects.Key(b)) })
	for _, id := range t.missing {
		r := mvcc.RefTo(id)
		live := objects.Live(r)
		kind, listed := t.store.whyUnlisted(l.Shard, objects.Key(id), live), true
		if kind == object.Deleted && !l.Part.IsZero() {
			listed = t.store.whyUnlisted(l.Part, objects.Key(id), live) == object.Deleted
		}
		if listed && (kind == object.Left || !nameless) {
			t.drop(kind, t.store.keep(objects.Key(id), live), r)
		}
	}
	t.missing = t.missing[:0]
}

// whyUnlisted returns why a list does not have the object that is held at p: it was deleted, or it is not in the
// shard.
func (s *Store[T]) whyUnlisted(shard object.Shard, k object.Key, p mvcc.Value) object.Kind {
	if shard.IsZero() || shard.Contains(s.identity(p).uid, k.Namespace) {
		return object.Deleted
	}
	return object.Left
}

// eachUnlisted calls f for the objects of the scope that the list did not have.
func (t *txn[T]) eachUnlisted(scope object.Scope, f func(id uint32)) {
	objects := t.store.objects
	if scope == object.Everything {
		objects.Lives(func(id uint32, _ mvcc.Value) bool {
			if !t.seen.has(id) {
				f(id)
			}
			return true
		})
		return
	}
	objects.Namespace(string(scope), func(id uint32) bool {
		if !t.seen.has(id) && objects.Live(mvcc.RefTo(id)) != nil {
			f(id)
		}
		return true
	})
}

// markForeign records that the object of an id is of an earlier epoch. It clears the note of a version that readers
// can see, without a Put after which they would look again. A Held that loads some of the three words before and some
// after compares a UID that differs, and returns false: the object is decoded once more. With all three cleared it
// compares the object itself. The writer never takes that for held: identityOf has no version for a foreign object.
func (s *Store[T]) markForeign(id uint32) {
	s.foreign[id] = true
	s.note(id, &compactID{})
}
