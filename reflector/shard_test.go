package reflector_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// shardOf returns the shard of the objects with these UIDs.
func shardOf(uids ...object.UID) object.Shard {
	var ranges []object.HashRange
	for _, uid := range uids {
		ranges = append(ranges, object.HashRange{First: object.Hash(uid), Last: object.Hash(uid)})
	}
	return object.NewShard(object.ByUID, ranges...)
}

func (r *fixture) set(shard object.Shard) {
	r.SetShard(shard)
	synctest.Wait()
}

func TestP05_AChangeOfTheShardListsWhatIsNew(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := newServer("a/1", "a/2", "b/3", "b/4") // u11 to u14
		opts := plain(options{})
		opts.Selection.Shard = shardOf("u11", "u12")
		r := start(t, srv, opts, via)
		r.changesAre("Added a/1@11", "Added a/2@12")
		asked := func(want ...string) {
			t.Helper()
			if via == simtest.Protobuf { // the others decide on their own what they need not decode
				r.requests(want...)
			}
		}
		asked(`LIST "0" limit=500`, `WATCH "14"`)

		// Nothing is new: no list.
		r.set(shardOf("u12"))
		r.changesAre("Left a/1@11 unknown")
		asked(`WATCH "14"`)
		if got := r.live().Mark; got != (object.Mark{Version: "14", Shard: shardOf("u12")}) {
			t.Errorf("at %v", got)
		}

		// An event outside of the shard moves the mark and changes nothing else.
		srv.Set("a/1")
		r.changesAre()
		if st := r.live(); st.Mark.Version != "15" || st.Sharding != reflector.ShardingClient || st.Counts.Outside == 0 {
			t.Errorf("at %v, sharding %v, %d outside", st.Mark, st.Sharding, st.Counts.Outside)
		}

		// Only what is new is listed and decoded, at the version of the watch.
		decoded := srv.Counts().Decoded
		r.set(shardOf("u11", "u12", "u13"))
		r.changesAre("Added a/1@15", "Added b/3@13")
		asked(`LIST "15" Exact limit=500 afresh`, `WATCH "15"`)
		if via == simtest.Protobuf && srv.Counts().Decoded-decoded != 4 { // this server does not shard
			t.Errorf("%d decoded", srv.Counts().Decoded-decoded)
		}
		srv.Set("b/3")
		srv.Set("b/4")
		srv.Set("a/2")
		r.changesAre("Updated b/3@16", "Updated a/2@18")

		// Several changes at once, and back.
		r.SetShard(shardOf("u14"))
		r.SetShard(shardOf())
		r.set(shardOf("u11", "u12", "u13"))
		r.changesAre()
		if got := r.live().Mark.Shard; got != shardOf("u11", "u12", "u13") {
			t.Errorf("the shard is %v", got.Selector())
		}
		srv.Requests()

		// After a deletion others may follow at its version, so everything is listed.
		srv.Delete("a/2")
		r.changesAre("Deleted a/2@19")
		r.set(shardOf("u11", "u13", "u14"))
		r.changesAre("Added b/4@17")
		asked(`LIST "19" NotOlderThan`, `WATCH "19"`)

		// A shard by another field, and everything.
		namespace := object.Hash("b")
		r.set(object.NewShard(object.ByNamespace, object.HashRange{First: namespace, Last: namespace}))
		r.changesAre("Left a/1@15 unknown")
		r.set(object.Shard{})
		r.changesAre("Added a/1@15")
		r.mirrors()
		if st := r.live(); st.Sharding != reflector.ShardingUnknown || !st.Shard.IsZero() {
			t.Errorf("sharding %v of %v", st.Sharding, st.Shard)
		}
	})
}

func TestP05_AServerThatLacksTheVersionListsAllOfTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/1", "a/2", "b/3")
		gone := 0
		srv.OnList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if opts.Match == object.Exact {
				gone++
				return object.Page{}, apierrors.NewResourceExpired("too old"), true
			}
			return object.Page{}, nil, false
		}
		opts := plain(options{})
		opts.Selection.Shard = shardOf("u11")
		r := start(t, srv, opts)
		r.changesAre("Added a/1@11")
		srv.Requests()
		r.set(shardOf("u11", "u12"))
		simtest.Advance(time.Minute)
		r.changesAre("Added a/2@12")
		if gone != 1 {
			t.Errorf("%d exact lists", gone)
		}
		r.requests(`LIST "13" Exact limit=500 afresh`, `LIST "13" NotOlderThan`, `WATCH "13"`)
		r.live()
	})
}

// A part that is listed at the version of a quiet watch lacks all changes since, until the watch has
// caught up.
func TestP05_APartIsNotListedAtAnOldVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/1", "a/2", "b/3")
		opts := plain(options{})
		opts.Selection.Shard = shardOf("u11")
		r := start(t, srv, opts)
		r.changesAre("Added a/1@11")
		simtest.Advance(reflector.MaxPartAge / 2)
		srv.Requests()
		r.set(shardOf("u11", "u12"))
		r.changesAre("Added a/2@12")
		r.requests(`LIST "13" Exact limit=500 afresh`, `WATCH "13"`)
		simtest.Advance(reflector.MaxPartAge / 2)
		srv.Requests()
		r.set(shardOf("u11", "u12", "u13")) // the list of a part is no news of the rest
		r.changesAre("Added b/3@13")
		r.requests(`LIST "13" NotOlderThan`, `WATCH "13"`)
		r.live()
	})
}

func TestP05_TheShardChangesInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/1", "a/2", "b/3")
		var refuse atomic.Bool
		refuse.Store(true)
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, apierrors.NewServiceUnavailable("busy"), refuse.Load()
		}
		opts := plain(options{})
		opts.Selection.Shard = shardOf("u11")
		r := start(t, srv, opts)
		r.in(reflector.BackingOff)
		r.set(shardOf("u13")) // during a back-off before the first list
		refuse.Store(false)
		simtest.Advance(time.Minute)
		r.changesAre("Added b/3@13")
		refuse.Store(true)
		r.set(shardOf("u12", "u13")) // the list of what is new fails
		r.in(reflector.BackingOff)
		r.set(shardOf("u11")) // and something else is new meanwhile
		refuse.Store(false)
		simtest.Advance(time.Minute)
		r.changesAre("Added a/1@11", "Left b/3@13 unknown")
		r.live()
	})
}

// A shard that changes faster than it can be listed does not keep the mirror from its changes.
func TestP05_LateListsBringWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/1", "a/2", "b/3")
		opts := plain(options{PageSize: 1})
		opts.Selection.Shard = shardOf("u11")
		r := start(t, srv, opts)
		r.changesAre("Added a/1@11")
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			<-time.After(400 * time.Millisecond) // for each of three pages
			return object.Page{}, nil, false
		}
		srv.Set("a/1")
		r.changesAre("Updated a/1@14")
		listed := r.live().Counts.Lists
		for i := range 40 {
			r.SetShard(shardOf("u11", []object.UID{"u12", "u13"}[i%2]))
			if i == 10 {
				srv.Set("a/1")
			}
			<-time.After(700 * time.Millisecond)
		}
		if n := r.Status().Counts.Lists - listed; n < 15 {
			t.Errorf("%d lists in 28 seconds", n)
		}
		if at := r.Status().Mark.Version; at != "15" {
			t.Errorf("the mirror is at version %s", at)
		}
		simtest.Advance(time.Minute)
		r.live()
	})
}

// An object of the shard is deleted and created again with a UID outside of it, which the server
// reports as one MODIFIED (W17).
func TestW17_AnObjectThatWasReplacedByOneOutsideIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/1", "a/2")
		opts := plain(options{})
		opts.Selection.Shard = shardOf("u11", "u12")
		r := start(t, srv, opts)
		r.changesAre("Added a/1@11", "Added a/2@12")
		replaced := event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/1", "another", "13", ""))}
		srv.Stream().Send(replaced, replaced)
		simtest.Advance(0)
		r.changesAre("Deleted a/1@11 unknown")
		if at := r.live().Mark.Version; at != "13" {
			t.Errorf("at version %s", at)
		}
	})
}
