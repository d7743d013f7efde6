package store

import (
	"iter"
	"runtime"

	"github.com/tarnproject/tarn/object"
)

// Diff yields the changes that lead from a to b: at most one for each key, or a deletion
// and an addition where the object is another one of the same name. Deletions are
// marked Unknown: their object is the one that a saw. Either snapshot may be the zero
// one; otherwise both must be of one store.
//
// It is one pass over the newest versions: what did not change costs two loads.
func Diff[T any](a, b Snapshot[T]) iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) { diff(a, b, yield) }
}

func diff[T any](a, b Snapshot[T], yield func(Change[T]) bool) {
	switch {
	case a.store == nil && b.store == nil:
		return
	case a.store == nil:
		b.each(func(k object.Key, v *version[T]) bool {
			return yield(Change[T]{Kind: Added, Key: b.store.keep(k, v), new: v})
		})
		return
	case b.store == nil:
		a.each(func(k object.Key, v *version[T]) bool {
			return yield(Change[T]{Kind: Deleted, Unknown: true, Key: a.store.keep(k, v), old: v, new: v})
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
	first := min(ra, rb)
	s := a.store
	s.objects.Ids(func(id uint32, head *version[T]) bool {
		if head.Revision() <= first {
			return true
		}
		va, vb := head.At(ra), head.At(rb)
		if va == vb {
			return true
		}
		if va == nil {
			k := s.keep(s.objects.Key(id), vb)
			return yield(Change[T]{Kind: Added, Key: k, new: vb})
		}
		k := s.keep(s.objects.Key(id), va)
		if vb != nil && !s.identity(va).otherLife(s.identity(vb)) {
			return yield(Change[T]{Kind: Updated, Key: k, old: va, new: vb})
		}
		return yield(Change[T]{Kind: Deleted, Unknown: true, Key: k, old: va, new: va}) &&
			(vb == nil || yield(Change[T]{Kind: Added, Key: k, new: vb}))
	})
	runtime.KeepAlive(a.lease)
	runtime.KeepAlive(b.lease)
}
