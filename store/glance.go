package store

import (
	"fmt"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// ahead is what is known of the next few deltas before the first of them is applied.
//
// The objects of a batch are in no cache, and what they supersede is not either. Whoever
// goes through them one by one waits for memory a dozen times for each. So a batch is gone
// through in small portions, and in each first for one thing and then for the next; the
// processor then waits for several objects at a time.
type ahead struct {
	refs       [mvcc.Ahead]ref
	identities [mvcc.Ahead]identity
	errs       [mvcc.Ahead]error
	used       int
	warm       byte // takes what was looked at for nothing but to have it in the cache
}

// unseen is the place of an object that was not among those.
const unseen = mvcc.Ahead

// forget lets go of the objects.
func (a *ahead) forget() {
	clear(a.identities[:a.used])
	clear(a.errs[:a.used])
	a.used = 0
}

// glance looks at up to mvcc.Ahead deltas.
func (t *txn[T]) glance(deltas []delta.Delta[T]) {
	s, a := t.store, &t.ahead
	a.used = max(a.used, len(deltas))
	t.touch(deltas)
	var keys [mvcc.Ahead]object.Key
	for i := range deltas {
		keys[i] = deltas[i].Key
	}
	s.objects.LookupAll(keys[:len(deltas)], a.refs[:])
	for i := range deltas {
		if d := &deltas[i]; d.List == nil && !d.Unknown {
			a.identities[i], a.errs[i] = s.identify(d.Object)
		}
	}
	for _, x := range *s.indexes.Load() {
		x.foresee(deltas, a.refs[:len(deltas)])
	}
}

// touch reads what the first steps will wait for. An accessor that panics will do so again
// when it counts.
func (t *txn[T]) touch(deltas []delta.Delta[T]) {
	defer func() { _ = recover() }()
	s, warm := t.store, byte(0)
	for i := range deltas {
		d := &deltas[i]
		if d.List != nil || d.Unknown {
			continue
		}
		if uid, version := s.acc.UIDOf(d.Object), s.acc.VersionOf(d.Object); uid != "" && version != "" && d.Key.Name != "" {
			warm ^= uid[0] ^ version[0] ^ d.Key.Name[0]
		}
	}
	t.ahead.warm = warm
}

// identify reads an object's identity; a panic of the accessor is an error.
func (s *Store[T]) identify(obj T) (id identity, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: accessor panicked on a value of type %T: %v", obj, r)
		}
	}()
	return identityFrom(s.acc.UIDOf(obj), s.acc.VersionOf(obj)), nil
}
