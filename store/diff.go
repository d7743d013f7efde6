package store

import (
	"iter"
	"runtime"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Diff yields the changes that lead from a to b: at most one for each key, or a deletion
// and an addition where the object is another one of the same name. Deletions are
// marked Unknown: their object is the one that a saw. An object that b lacks and that is not in the
// shard of b is reported as Left. Either snapshot may be the zero
// one; otherwise both must be of one store.
//
// If the server's history began again in between, all updates are marked Rewound.
//
// The changes have no order. Diff is one pass over the newest versions and skips spans in which
// nothing changed. An object that was written again as the same pointer has not changed.
func Diff[T any](a, b Snapshot[T]) iter.Seq[object.Change[T]] {
	return func(yield func(object.Change[T]) bool) { diff(a, b, yield) }
}

func diff[T any](a, b Snapshot[T], yield func(object.Change[T]) bool) {
	switch {
	case a.store == nil && b.store == nil:
		return
	case a.store == nil:
		b.each(func(k object.Key, p mvcc.Value) bool { return yield(b.store.added(k, p)) })
		return
	case b.store == nil:
		a.each(func(k object.Key, p mvcc.Value) bool { return yield(a.store.dropped(b, k, p)) })
		return
	case a.store != b.store:
		panic("store: Diff of snapshots of two stores")
	}
	a.check()
	b.check()
	ra, rb := a.state.Revision, b.state.Revision
	if ra == rb {
		return
	}
	s := a.store
	rewound := a.state.Payload.rewinds != b.state.Payload.rewinds
	s.objects.Since(min(ra, rb), func(id uint32) bool {
		pa, pb := s.objects.At(id, ra), s.objects.At(id, rb)
		switch {
		case pa == pb:
			return true
		case pa == nil:
			return yield(s.added(s.objects.Key(id), pb))
		case pb == nil:
			return yield(s.dropped(b, s.objects.Key(id), pa))
		}
		ia, ib := s.identity(pa), s.identity(pb)
		if ia.otherUID(&ib) {
			return yield(s.dropped(b, s.objects.Key(id), pa)) && yield(s.added(s.objects.Key(id), pb))
		}
		return yield(object.Change[T]{Kind: object.Updated, Rewound: rewound, Key: s.keep(s.objects.Key(id), pb),
			UID: ib.uid, Version: ib.version, Prior: s.value(pa), Value: s.value(pb)})
	})
	runtime.KeepAlive(a.lease)
	runtime.KeepAlive(b.lease)
}

// added returns the addition of what is held at p.
func (s *Store[T]) added(k object.Key, p mvcc.Value) object.Change[T] {
	id := s.identity(p)
	return object.Change[T]{Kind: object.Added, Key: s.keep(k, p), UID: id.uid, Version: id.version, Value: s.value(p)}
}

// dropped returns the removal of what was held at p and is not in the snapshot b. An object that is
// not in the shard of b has left, whether or not it was deleted before.
func (s *Store[T]) dropped(b Snapshot[T], k object.Key, p mvcc.Value) object.Change[T] {
	id, was := s.identity(p), s.value(p)
	return object.Change[T]{Kind: s.whyUnlisted(b.shardOf(k), k, p), Unknown: true, Key: s.keep(k, p), UID: id.uid, Version: id.version, Prior: was, Value: was}
}
