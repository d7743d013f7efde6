package store

import (
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
	used       int
}

// unseen is the place of an object that was not among those.
const unseen = mvcc.Ahead

// forget lets go of the objects.
func (a *ahead) forget() {
	clear(a.identities[:a.used])
	a.used = 0
}

// glance looks at up to mvcc.Ahead changes.
func (t *txn[T]) glance(changes []object.Change[T]) {
	s, a := t.store, &t.ahead
	a.used = max(a.used, len(changes))
	var keys [mvcc.Ahead]object.Key
	for i := range changes {
		keys[i] = changes[i].Key
	}
	s.objects.LookupAll(keys[:len(changes)], a.refs[:])
	for i := range changes {
		if c := &changes[i]; c.List == nil && !c.Unknown {
			a.identities[i] = identityFrom(c.UID, c.Version)
		}
	}
	for _, x := range *s.indexes.Load() {
		x.foresee(changes, a.refs[:len(changes)])
	}
}
