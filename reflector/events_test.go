package reflector_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestW14_StaleEventsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		x := srv.Set("a/x", value("v"))        // 13
		late := simtest.ItemOf(srv.Get("a/y")) // 12
		srv.Delete("a/y")                      // 14
		simtest.Advance(0)
		r.changes.Take()
		srv.Stream().Send(
			event{Kind: object.Updated, Item: simtest.ItemOf(x)}, // twice
			event{Kind: object.Added, Item: late},                // stale: would restore a deleted object
			event{Kind: object.Updated, Item: late},              // stale: would restore a deleted object
			event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/y", late.UID, "14", ""))},
		)
		simtest.Advance(0)
		r.changesAre()
		r.mirrors()
		if s := r.live(); s.Counts.Stale != 4 || s.Mark.Version != "14" {
			t.Errorf("%+v", s)
		}
		// Also after a reconnect.
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(time.Second)
		srv.Stream().Send(event{Kind: object.Updated, Item: late})
		simtest.Advance(0)
		r.changesAre()
		r.mirrors()
	})
}

// etcd deletes all keys of a lease in one transaction, so Events that expire together have
// one version. Each deletion may still arrive twice.
func TestW14_DeletionsOfOneVersionAllApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z") // 11, 12, 13
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		var gone []event
		for _, key := range []string{"a/x", "a/y", "a/z"} {
			last := *srv.Get(key)
			last.ResourceVersion = "14"
			gone = append(gone, event{Kind: object.Deleted, Item: simtest.ItemOf(&last)})
		}
		srv.Stream().Send(gone[0], gone[1])
		simtest.Advance(0)
		srv.Stream().Send(gone[2], gone[0])
		simtest.Advance(0)
		r.changesAre("Deleted a/x@14", "Deleted a/y@14", "Deleted a/z@14")
		if s := r.live(); s.Mark.Version != "14" || r.store.Len() != 0 {
			t.Errorf("%d objects at %s", r.store.Len(), s.Mark.Version)
		}
	})
}

func TestW14_ObjectsWithoutUIDAreNotFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		r := start(t, srv, plain(options{}))
		srv.Stream().Send(
			event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/x", "", "9", ""))},
			event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/y", "", "", ""))},
		)
		simtest.Advance(0)
		if r.store.Len() != 2 || r.live().Counts.Stale != 0 {
			t.Errorf("%s", r.state())
		}
	})
}

func TestW15_DeletedWithTheObjectsOwnVersionApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		x := simtest.ItemOf(srv.Get("a/x"))
		srv.Stream().Send(event{Kind: object.Deleted, Item: x})
		simtest.Advance(2 * time.Second)
		r.changesAre("Deleted a/x@11")
		if s := r.live(); s.Mark.Version != "12" {
			t.Errorf("the version went back to %s", s.Mark.Version)
		}
		srv.Cut(io.EOF)
		simtest.Advance(0)
		r.requests(`LIST "0" limit=500`, `WATCH "12"`, `WATCH "12"`)
	})
}

func TestW15_UndecodableDeletedWithTheObjectsOwnVersionApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		bad := func(uid object.UID, version object.Version) event {
			x := simtest.ItemOf(srv.Get("a/x"))
			return event{Kind: object.Deleted, Item: item{Key: x.Key, UID: uid, Version: version, Err: errors.New("unreadable")}}
		}
		x := simtest.ItemOf(srv.Get("a/x"))
		srv.Stream().Send(bad("another", x.Version), bad(x.UID, "10")) // of an earlier object
		simtest.Advance(2 * time.Second)
		r.changesAre()
		srv.Stream().Send(bad(x.UID, x.Version))
		simtest.Advance(2 * time.Second)
		r.changesAre("Deleted a/x@11 unknown")
		if s := r.live(); s.Mark.Version != "12" {
			t.Errorf("version %s", s.Mark.Version)
		}
	})
}

func TestW16_LeavingAndEnteringTheSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		sel := object.Selection{Namespace: "a", Labels: "app=web", Fields: "spec.nodeName=n1"}
		var seen []object.Selection
		srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			seen = append(seen, opts.Selection)
			return object.Page{}, nil, false
		}
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			seen = append(seen, opts.Selection)
			return nil, nil, false
		}
		r := start(t, srv, plain(options{Selection: sel}))
		if !slices.Equal(seen, []object.Selection{sel, sel}) {
			t.Errorf("asked for %+v", seen)
		}
		x := *srv.Get("a/x")
		x.ResourceVersion = "12"
		srv.Stream().Send(event{Kind: object.Deleted, Item: simtest.ItemOf(&x)})
		simtest.Advance(0)
		r.changesAre("Added a/x@11", "Deleted a/x@12")
		y := x
		y.ResourceVersion = "13"
		srv.Stream().Send(event{Kind: object.Added, Item: simtest.ItemOf(&y)})
		simtest.Advance(0)
		r.changesAre("Added a/x@13")
	})
}

func TestW17_NewUIDIsADeletionAndAnAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		srv.Stream().Send(event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/x", "another", "13", ""))})
		simtest.Advance(0)
		r.changesAre("Deleted a/x@11 unknown", "Added a/x@13")
		// After a gap in the watch.
		srv.SetVersion(13)
		srv.Cut(io.ErrUnexpectedEOF)
		srv.Delete("a/y")
		y := srv.Set("a/y", value("again"))
		srv.Compact()
		simtest.Advance(time.Second)
		r.changesAre("Deleted a/x@13 unknown", "Added a/x@11", "Deleted a/y@12 unknown", "Added a/y@"+y.ResourceVersion)
	})
}

func TestW18_DeletedWhileTheWatchWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		srv.Cut(io.ErrUnexpectedEOF)
		srv.Delete("a/y")
		srv.Compact()
		simtest.Advance(time.Second)
		r.changesAre("Deleted a/y@12 unknown")
		r.mirrors()
		r.live()
	})
}

func TestW21_UnknownEventsAreCountedAndSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.Stream().Send(event{Item: item{Version: "99"}})
		srv.Set("a/y", value("v"))
		r.mirrors()
		if s := r.live(); s.Counts.Unknown != 1 || s.Mark.Version != "12" {
			t.Errorf("%+v", s)
		}
		// A wrong kind is an error.
		wrong := &object.WrongKindError{Want: "Thing", Got: "Table"}
		srv.Stream().Send(event{Kind: object.Updated, Item: item{Key: object.RawKey("a/x"), Err: wrong}})
		simtest.Advance(0)
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrWrongKind) || s.Quarantined != 0 {
			t.Errorf("%v", s)
		}
	})
}
