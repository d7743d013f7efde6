package store

import (
	"runtime"
	"strings"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Unreadable is an object that the server has and that could not be decoded or prepared. A store is at
// the server's state except for these.
type Unreadable struct {
	UID     object.UID
	Version object.Version
	// Cause is why this version cannot be read.
	Cause error
}

// Unreadable reports whether the newest version of an object cannot be read. The snapshot may have the
// last good state of the same UID. The key with an empty name stands for all objects of a scope, a
// namespace or "", whose keys cannot be read.
func (n Snapshot[T]) Unreadable(k object.Key) (u Unreadable, ok bool) {
	if n.Unreadables() == 0 {
		return u, false
	}
	n.check()
	p, _ := n.store.unreadable.Find(k, n.state.Revision)
	runtime.KeepAlive(n.lease)
	if p == nil {
		return u, false
	}
	return *unreadableAt(p), true
}

// Unreadables is the number of keys for which [Snapshot.Unreadable] is true.
func (n Snapshot[T]) Unreadables() int {
	if n.store == nil {
		return 0
	}
	return n.state.Payload.unreadable
}

// cannotRead records that the newest version of an object cannot be read.
func (t *txn[T]) cannotRead(key object.Key, id *identity, cause error) {
	all := t.store.unreadable
	r := all.Lookup(key)
	if all.Live(r) == nil {
		t.root.unreadable++
	}
	delete(t.cured, key)
	all.Put(key, r, heldUnreadable(&Unreadable{
		UID: object.UID(strings.Clone(string(id.uid))), Version: object.Version(strings.Clone(string(id.version))), Cause: cause,
	}))
}

// readable removes the record of cannotRead.
func (t *txn[T]) readable(key object.Key) {
	all := t.store.unreadable
	if r := all.Lookup(key); all.Live(r) != nil {
		all.Delete(r)
		t.root.unreadable--
	}
}

// beginCure finds the unreadable objects that can be read or do not exist, unless the list names them. A
// list of a part says nothing about an object outside of it, or one without a UID.
func (t *txn[T]) beginCure(l *object.List[T]) {
	t.cured = nil
	if t.root.unreadable == 0 {
		return
	}
	t.cured = map[object.Key]struct{}{}
	all := t.store.unreadable
	all.Lives(func(id uint32, p mvcc.Value) bool {
		key, uid := all.Key(id), unreadableAt(p).UID
		listed := l.Part.IsZero() || uid != "" && (l.Part.Contains(uid, key.Namespace) || !l.Shard.Contains(uid, key.Namespace))
		if l.Scope.Covers(key) && listed {
			t.cured[key] = struct{}{}
		}
		return true
	})
}
