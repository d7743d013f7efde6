package reflector_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// Every event type, for the object held and for another UID of the same name, at every relation to
// the version held (11) and to the version of the stream (20).
func TestW14_WhatAnEventDoesFollowsFromWhatIsHeldAndWhereTheStreamIs(t *testing.T) {
	versions := []object.Version{"10", "11", "15", "20", "25"}
	for _, c := range []struct {
		kind    object.Kind
		held    bool
		same    bool // of the UID held
		applies []object.Version
	}{
		{object.Added, true, true, []object.Version{"25"}},
		{object.Updated, true, true, []object.Version{"25"}},
		{object.Deleted, true, true, []object.Version{"11", "15", "20", "25"}},
		{object.Added, true, false, []object.Version{"25"}},
		{object.Updated, true, false, []object.Version{"25"}},
		{object.Deleted, true, false, []object.Version{"20", "25"}}, // deletions may share a version
		{object.Added, false, true, []object.Version{"25"}},         // it was deleted and must not be restored
		{object.Updated, false, true, []object.Version{"25"}},
		{object.Deleted, false, true, nil},
	} {
		for _, v := range versions {
			t.Run(fmt.Sprintf("%v, held %v, same UID %v, at %s", c.kind, c.held, c.same, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := newServer("a/x") // 11
					r := start(t, srv, plain(options{}))
					x := *srv.Get("a/x")
					if !c.held {
						srv.Delete("a/x") // 12
					}
					srv.Stream().Send(bookmark("20"))
					simtest.Advance(0)
					r.changes.Take()
					if x.ResourceVersion = string(v); !c.same {
						x.UID = "another"
					}
					srv.Stream().Send(event{Kind: c.kind, Item: simtest.ItemOf(&x)})
					simtest.Advance(0)
					applies := false
					for _, a := range c.applies {
						applies = applies || a == v
					}
					if got := r.changes.Take(); len(got) > 0 != applies {
						t.Errorf("changes %q, want some: %v", got, applies)
					}
					if stale := r.live().Counts.Stale > 0; stale && applies {
						t.Error("counted as stale")
					}
				})
			})
		}
	}
}

// The same for an object quarantined at 11.
func TestW14_ADeletionBetweenTheVersionHeldAndTheStreamsEndsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x") // 11
		r := start(t, srv, plain(options{}))
		x := srv.Get("a/x")
		srv.Stream().Send(event{Kind: object.Updated, Item: bad("a/x", x.UID, "12")}, bookmark("20"),
			event{Kind: object.Deleted, Item: bad("a/x", x.UID, "10")})
		simtest.Advance(0)
		if q := r.Quarantine(); len(q) != 1 {
			t.Errorf("%+v", q)
		}
		srv.Stream().Send(event{Kind: object.Deleted, Item: bad("a/x", x.UID, "15")})
		simtest.Advance(0)
		if q := r.Quarantine(); len(q) != 0 || r.store.Len() != 0 {
			t.Errorf("%+v, %s", q, r.state())
		}
	})
}

// Whether a late event is news, the store decides. It neither begins a quarantine nor ends one.
func TestW14_ALateEventIsPassedOnAndLeavesTheQuarantineAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x") // 11
		r := start(t, srv, plain(options{}))
		x := *srv.Get("a/x")
		x.ResourceVersion = "24"
		srv.Stream().Send(event{Kind: object.Updated, Item: bad("a/x", x.UID, "25")},
			event{Kind: object.Updated, Item: simtest.ItemOf(&x)}, event{Kind: object.Added, Item: bad("a/y", "u", "23")})
		simtest.Advance(0)
		if q := r.Quarantine(); len(q) != 1 || q[0].Version != "25" {
			t.Errorf("quarantine %+v", q)
		}
		if obj, _ := r.store.Get(object.RawKey("a/x")); obj == nil || obj.ResourceVersion != "11" {
			t.Errorf("the store has %v", obj)
		}
		if stale := r.store.Stats().Stale; stale != 2 {
			t.Errorf("the store decided about %d late events, want 2", stale)
		}
	})
}
