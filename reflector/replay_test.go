package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// The FIFO merges two consecutive deletions of a key. A deletion replayed after a reconnect must
// not replace the later one.
func TestW14_AReplayedDeletionHidesNoLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		p := newStream()
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return p, nil, true }
		r := prepare(t, srv, plain(options{}))
		ctx, cancel := context.WithCancel(t.Context())
		step := func() {
			t.Helper()
			if err := r.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		apply := func() {
			t.Helper()
			err := r.buffer.PopBatch(ctx, func(b *object.Batch[*thing]) error { r.apply(b); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		step() // begins
		step() // lists: a/x u11 at 11, a/y at 12
		step() // opens the watch
		apply()
		gone := event{Kind: object.Deleted, Item: simtest.ItemOf(newThing("a/x", "u11", "13", ""))}
		p.Send(gone, event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/x", "u14", "14", ""))})
		step()
		apply()
		r.changesAre("Added a/x@11", "Added a/y@12", "Deleted a/x@13", "Added a/x@14")
		p.Send(gone, event{Kind: object.Deleted, Item: simtest.ItemOf(newThing("a/x", "u14", "15", ""))}, gone)
		step()
		apply()
		r.changesAre("Deleted a/x@15")
		if s := r.Status(); s.Mark.Version != "15" {
			t.Errorf("%+v", s)
		}
		cancel()
		r.Step(ctx)
	})
}

// A mirror that covers a namespace again must not show an older state than before.
func TestL02_SinceMakesTheFirstListNotOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{Since: object.Mark{Epoch: 3, Version: "12"}}))
		r.requests(`LIST "12" NotOlderThan`, `WATCH "12"`)
		r.mirrors()
		if s := r.live(); s.Mark != (object.Mark{Epoch: 3, Version: "12"}) {
			t.Errorf("at %+v", s.Mark)
		}
	})
}

func TestW19_SinceNoticesARewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{Since: object.Mark{Epoch: 3, Version: "500"}}))
		r.mirrors()
		if s := r.live(); s.Mark != (object.Mark{Epoch: 4, Version: "12"}) || s.Counts.Rewinds != 1 {
			t.Errorf("at %+v, %d rewinds", s.Mark, s.Counts.Rewinds)
		}
	})
}
