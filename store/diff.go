package store

import (
	"iter"
	"runtime"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// Diff yields the changes that lead from a to b: at most one for each key, or a deletion
// and an addition where the object is another one of the same name. Deletions are
// marked Unknown: their object is the one that a saw. Either snapshot may be the zero
// one; otherwise both must be of one store.
//
// Updates are marked Rewound, all of them, if the server's history began anew in between.
//
// It is one pass over the newest versions, which leaves out stretches where nothing changed.
// An object that was written again as the very same pointer has not changed.
func Diff[T any](a, b Snapshot[T]) iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) { diff(a, b, yield) }
}

func diff[T any](a, b Snapshot[T], yield func(Change[T]) bool) {
	switch {
	case a.store == nil && b.store == nil:
		return
	case a.store == nil:
		b.each(func(k object.Key, p unsafe.Pointer) bool {
			return yield(Change[T]{Kind: Added, Key: b.store.keep(k, p), new: b.store.value(p)})
		})
		return
	case b.store == nil:
		a.each(func(k object.Key, p unsafe.Pointer) bool {
			was := a.store.value(p)
			return yield(Change[T]{Kind: Deleted, Unknown: true, Key: a.store.keep(k, p), old: was, new: was})
		})
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
		if pa == pb {
			return true
		}
		if pa == nil {
			return yield(Change[T]{Kind: Added, Key: s.keep(s.objects.Key(id), pb), new: s.value(pb)})
		}
		k, was := s.keep(s.objects.Key(id), pa), s.value(pa)
		if pb != nil {
			ia, ib := s.identity(pa), s.identity(pb)
			if !ia.otherLife(&ib) {
				return yield(Change[T]{Kind: Updated, Rewound: rewound, Key: k, old: was, new: s.value(pb)})
			}
		}
		return yield(Change[T]{Kind: Deleted, Unknown: true, Key: k, old: was, new: was}) &&
			(pb == nil || yield(Change[T]{Kind: Added, Key: k, new: s.value(pb)}))
	})
	runtime.KeepAlive(a.lease)
	runtime.KeepAlive(b.lease)
}
