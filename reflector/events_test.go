package reflector_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestW14_StaleEventsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		x := srv.put("a/x", "v")                  // 13
		late := itemOf(srv.objects[keyOf("a/y")]) // 12
		srv.remove("a/y")                         // 14
		advance(0)
		r.takeChanges()
		srv.stream().send(
			event{Kind: object.Updated, Item: itemOf(x)}, // twice
			event{Kind: object.Added, Item: late},        // would revive
			event{Kind: object.Updated, Item: late},      // would revive
			event{Kind: object.Updated, Item: itemOf(&thing{key: keyOf("a/y"), uid: late.UID, version: "14"})},
		)
		advance(0)
		r.changesAre()
		r.mirrors()
		if s := r.live(); s.Counts.Stale != 4 || s.Mark.Version != "14" {
			t.Errorf("%+v", s)
		}
		// Across a reconnect too.
		srv.cut(io.ErrUnexpectedEOF)
		advance(time.Second)
		srv.stream().send(event{Kind: object.Updated, Item: late})
		advance(0)
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
		r.takeChanges()
		var gone []event
		for _, key := range []string{"a/x", "a/y", "a/z"} {
			last := *srv.objects[keyOf(key)]
			last.version = "14"
			gone = append(gone, event{Kind: object.Deleted, Item: itemOf(&last)})
		}
		srv.stream().send(gone[0], gone[1])
		advance(0)
		srv.stream().send(gone[2], gone[0])
		advance(0)
		r.changesAre("Deleted a/x@14", "Deleted a/y@14", "Deleted a/z@14")
		if s := r.live(); s.Mark.Version != "14" || r.store.Len() != 0 {
			t.Errorf("%d objects at %s", r.store.Len(), s.Mark.Version)
		}
	})
}

func TestW14_ObjectsWithoutUIDAreNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		r := start(t, srv, plain(options{}))
		srv.stream().send(
			event{Kind: object.Added, Item: itemOf(&thing{key: keyOf("a/x"), version: "9"})},
			event{Kind: object.Added, Item: itemOf(&thing{key: keyOf("a/y")})},
		)
		advance(0)
		if r.store.Len() != 2 || r.live().Counts.Stale != 0 {
			t.Errorf("%s", r.state())
		}
	})
}

func TestW15_DeletedWithTheObjectsOwnVersionApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		x := itemOf(srv.objects[keyOf("a/x")])
		srv.stream().send(event{Kind: object.Deleted, Item: x})
		advance(2 * time.Second)
		r.changesAre("Deleted a/x@11")
		if s := r.live(); s.Mark.Version != "12" {
			t.Errorf("the version went back to %s", s.Mark.Version)
		}
		srv.cut(io.EOF)
		advance(0)
		r.requests(`LIST "0" limit=500`, `WATCH "12"`, `WATCH "12"`)
	})
}

func TestW15_UndecodableDeletedWithTheObjectsOwnVersionApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		bad := func(uid object.UID, version object.Version) event {
			x := itemOf(srv.objects[keyOf("a/x")])
			return event{Kind: object.Deleted, Item: item{Key: x.Key, UID: uid, Version: version, Err: errors.New("unreadable")}}
		}
		x := itemOf(srv.objects[keyOf("a/x")])
		srv.stream().send(bad("another", x.Version), bad(x.UID, "10")) // of something that went before
		advance(2 * time.Second)
		r.changesAre()
		srv.stream().send(bad(x.UID, x.Version))
		advance(2 * time.Second)
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
		srv.onList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			seen = append(seen, opts.Selection)
			return object.Page{}, nil, false
		}
		srv.onWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			seen = append(seen, opts.Selection)
			return nil, nil, false
		}
		r := start(t, srv, plain(options{Selection: sel}))
		if !slices.Equal(seen, []object.Selection{sel, sel}) {
			t.Errorf("asked for %+v", seen)
		}
		x := *srv.objects[keyOf("a/x")]
		x.version = "12"
		srv.stream().send(event{Kind: object.Deleted, Item: itemOf(&x)})
		advance(0)
		r.changesAre("Added a/x@11", "Deleted a/x@12")
		y := x
		y.version = "13"
		srv.stream().send(event{Kind: object.Added, Item: itemOf(&y)})
		advance(0)
		r.changesAre("Added a/x@13")
	})
}

func TestW17_NewUIDIsADeletionAndAnAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		srv.stream().send(event{Kind: object.Updated, Item: itemOf(&thing{key: keyOf("a/x"), uid: "another", version: "13"})})
		advance(0)
		r.changesAre("Deleted a/x@11 unknown", "Added a/x@13")
		// Across a gap.
		srv.set(func() { srv.version = 13 })
		srv.cut(io.ErrUnexpectedEOF)
		srv.remove("a/y")
		y := srv.put("a/y", "again")
		srv.compact()
		advance(time.Second)
		r.changesAre("Deleted a/x@13 unknown", "Added a/x@11", "Deleted a/y@12 unknown", "Added a/y@"+string(y.version))
	})
}

func TestW18_DeletedWhileTheWatchWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		srv.cut(io.ErrUnexpectedEOF)
		srv.remove("a/y")
		srv.compact()
		advance(time.Second)
		r.changesAre("Deleted a/y@12 unknown")
		r.mirrors()
		r.live()
	})
}

func TestW21_UnknownEventsAreCountedAndSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.stream().send(event{Item: item{Version: "99"}})
		srv.put("a/y", "v")
		r.mirrors()
		if s := r.live(); s.Counts.Unknown != 1 || s.Mark.Version != "12" {
			t.Errorf("%+v", s)
		}
		// A wrong kind is an error.
		wrong := &object.WrongKindError{Want: "Thing", Got: "Table"}
		srv.stream().send(event{Kind: object.Updated, Item: item{Key: keyOf("a/x"), Err: wrong}})
		advance(0)
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrWrongKind) || s.Quarantined != 0 {
			t.Errorf("%v", s)
		}
	})
}
