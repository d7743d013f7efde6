package reflector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func bad(key string, uid object.UID, version object.Version) item {
	return item{Key: object.RawKey(key), UID: uid, Version: version, Err: errors.New("invalid character"), Raw: []byte(`{"spec": nonsense}`)}
}

func TestL11_UndecodableObjectIsPutInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.OnList = func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if n > 1 {
				return object.Page{}, nil, false
			}
			sink(simtest.ItemOf(srv.Get("a/x")))
			sink(bad("a/y", srv.Get("a/y").UID, "12"))
			sink(simtest.ItemOf(srv.Get("a/z")))
			return object.Page{Version: "13"}, nil, true
		}
		r := start(t, srv, plain(options{}))
		if got := r.state(); got != "a/x=first@11 a/z=first@13" {
			t.Error(got)
		}
		s := r.live()
		q := r.Quarantine()
		if s.Quarantined != 1 || len(q) != 1 || q[0].Key != object.RawKey("a/y") || q[0].Version != "12" || q[0].Count != 1 ||
			q[0].Size != 18 || string(q[0].Raw) != `{"spec": nonsense}` || q[0].Cause.Error() != "invalid character" {
			t.Errorf("%d: %+v", s.Quarantined, q)
		}

		// A bad version of another object keeps its last good state, and the version advances.
		srv.Stream().Send(event{Kind: object.Updated, Item: bad("a/z", srv.Get("a/z").UID, "14")})
		simtest.Advance(0)
		srv.SetVersion(14)
		if s := r.live(); s.Quarantined != 2 || s.Mark.Version != "14" {
			t.Errorf("%d in quarantine at %v", s.Quarantined, s.Mark)
		}
		if got := r.state(); got != "a/x=first@11 a/z=first@13" {
			t.Error(got)
		}
		if m := r.store.Snapshot(); m.Version() != "14" {
			t.Errorf("the store is at %s", m.Version())
		}

		// Good versions end it, by event and by list.
		srv.Set("a/y", value("good"))
		simtest.Advance(0)
		if q := r.Quarantine(); len(q) != 1 || q[0].Key != object.RawKey("a/z") {
			t.Errorf("%+v", q)
		}
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		if s := r.live(); s.Quarantined != 0 {
			t.Errorf("%d in quarantine", s.Quarantined)
		}
		r.mirrors()
	})
}

func TestL11_UndecodableObjectIsNotTakenForDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		uid := srv.Get("a/y").UID
		relist := func(items ...item) {
			srv.OnList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
				for _, it := range items {
					sink(it)
				}
				return object.Page{Version: srv.Version()}, nil, true
			}
			srv.Cut(apierrors.NewResourceExpired("gone"))
			simtest.Advance(time.Minute)
		}
		x := simtest.ItemOf(srv.Get("a/x"))
		relist(x, bad("a/y", uid, "12"))
		if got := r.state(); got != "a/x=first@11 a/y=first@12" {
			t.Error(got)
		}
		relist(x, item{Err: errors.New("no name can be read")})
		if got := r.state(); got != "a/x=first@11 a/y=first@12" {
			t.Error(got)
		}
		if q := r.Quarantine(); len(q) != 1 || !q[0].Key.IsZero() {
			t.Errorf("%+v", q)
		}
		// A deletion takes effect even if its last state cannot be read.
		srv.SetVersion(13)
		srv.Stream().Send(event{Kind: object.Deleted, Item: bad("a/y", uid, "13")})
		simtest.Advance(0)
		if got := r.state(); got != "a/x=first@11" {
			t.Error(got)
		}
		// Unless the event is older than the version held.
		srv.Stream().Send(event{Kind: object.Deleted, Item: bad("a/x", x.UID, "10")})
		simtest.Advance(0)
		if got := r.state(); got != "a/x=first@11" {
			t.Error(got)
		}
		if s := r.live(); s.Mark.Version != "13" {
			t.Errorf("%+v", s)
		}
	})
}

func TestL11_QuarantineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		srv.OnList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			for i := range 3000 {
				sink(item{Key: object.Key{Name: fmt.Sprint(i)}, UID: "u", Version: "5", Err: errors.New("bad"), Raw: make([]byte, 10_000)})
			}
			return object.Page{Version: "10"}, nil, true
		}
		r := start(t, srv, plain(options{}))
		if s := r.live(); s.Quarantined != 3000 {
			t.Errorf("%d in quarantine", s.Quarantined)
		}
		q, raw := r.Quarantine(), 0
		for _, e := range q {
			raw += len(e.Raw)
			if e.Size != 10_000 {
				t.Fatalf("size %d", e.Size)
			}
		}
		if len(q) != 1000 || raw > 1<<20 || raw == 0 {
			t.Errorf("%d kept with %d bytes", len(q), raw)
		}
		s := r.srv.Stream()
		for i := range 5 {
			s.Send(event{Kind: object.Updated, Item: item{Key: object.Key{Name: "7"}, UID: "u",
				Version: object.Version(fmt.Sprint(20 + i)), Err: errors.New("bad")}})
		}
		simtest.Advance(0)
		for _, e := range r.Quarantine() {
			if e.Key.Name == "7" && (e.Count != 6 || e.Version != "24") {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestH08_TransformRunsOnceAndItsErrorIsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.Set("a/y", value("bad"))
		srv.Set("a/z", value("first"))
		calls := map[string]int{}
		opts := plain(options{Transform: func(o *thing) (*thing, error) {
			calls[o.Name+o.ResourceVersion]++
			switch {
			case o.Status.Message == "bad":
				return nil, errors.New("cannot be transformed")
			case o.Status.Message == "panic":
				panic("thrown")
			}
			o.Status.Message += "+"
			return o, nil
		}})
		r := start(t, srv, opts)
		if got := r.state(); got != "a/x=first+@11 a/z=first+@13" {
			t.Error(got)
		}
		srv.Set("a/x", value("panic")) // 14
		srv.Set("a/z", value("v"))     // 15
		simtest.Advance(0)
		if got := r.state(); got != "a/x=first+@11 a/z=v+@15" {
			t.Error(got)
		}
		if q := r.Quarantine(); len(q) != 2 || !strings.Contains(q[0].Cause.Error(), "thrown") || !strings.Contains(q[1].Cause.Error(), "transform: cannot") {
			t.Errorf("%+v", q)
		}
		// Also for a deletion; if that fails, the object is still deleted.
		srv.Delete("a/z")
		srv.Delete("a/x")
		simtest.Advance(0)
		r.changesAre("Added a/x@11", "Added a/z@13", "Updated a/z@15", "Deleted a/z@16", "Deleted a/x@11 unknown")
		// Objects already held are not transformed again.
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		for what, n := range calls {
			if n != 1 && what != "y12" { // which is not held
				t.Errorf("%s was transformed %d times", what, n)
			}
		}
		if calls["z16"] != 1 || len(r.Quarantine()) != 1 {
			t.Errorf("%v, %v", calls, r.Quarantine())
		}
	})
}
