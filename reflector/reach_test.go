package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// reaches checks where a reflector stands, and where it would resume.
func (r *fixture) reaches(seen, resume object.Version) {
	r.t.Helper()
	if s := r.Status(); s.Mark.Version != seen || s.Resume != resume {
		r.t.Errorf("at %s, to be resumed from %s; want %s, %s", s.Mark.Version, s.Resume, seen, resume)
	}
}

func TestW14_DeletionsOfOneVersionSurviveACutBetweenThem(t *testing.T) {
	for name, end := range map[string]func(s *server){
		"in order":   func(s *server) { s.Cut(io.EOF) },
		"broken off": func(s *server) { s.Cut(io.ErrUnexpectedEOF) },
		"an ERROR": func(s *server) {
			s.Stream().Send(event{Err: apierrors.NewInternalError(errors.New("etcd"))})
		},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streaming %v", name, streaming), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := newServer("a/x", "a/y", "a/z") // 11, 12, 13
					opts := plain(options{})
					if srv.Streams = streaming; streaming {
						opts = options{}
					}
					r := start(t, srv, opts)
					srv.Requests()
					r.changes.Take()
					srv.DeleteTogether(1, "a/x", "a/y", "a/z") // 14
					simtest.Advance(2 * time.Second)
					r.changesAre("Deleted a/x@14")
					r.reaches("14", "13")
					end(srv)
					simtest.Advance(time.Second)
					r.changesAre("Deleted a/y@14", "Deleted a/z@14")
					r.requests(`WATCH "13"`)
					r.mirrors()
					r.live()
					r.reaches("14", "13")

					// And again with every deletion known: the next event completes the version.
					simtest.Advance(2 * time.Second)
					end(srv)
					srv.Set("a/x", value("again")) // 15
					simtest.Advance(time.Minute)
					r.changesAre("Added a/x@15")
					r.requests(`WATCH "13"`)
					r.mirrors()
					r.reaches("15", "15")
					if s := r.live(); s.Counts.Stale != 4 || s.Counts.Lists != 1 {
						t.Errorf("%d stale, %d lists", s.Counts.Stale, s.Counts.Lists)
					}
				})
			})
		}
	}
}

func TestW14_AVersionIsResumedFromWhenItIsComplete(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *server)
		from object.Version
	}{
		"a creation":              {func(s *server) { s.Set("a/z", value("v")) }, "13"},
		"an update":               {func(s *server) { s.Set("a/x", value("v")) }, "13"},
		"a deletion":              {func(s *server) { s.Delete("a/x") }, "12"},
		"deletion after deletion": {func(s *server) { s.Delete("a/x"); s.Delete("a/y") }, "13"},
		"deletion after update":   {func(s *server) { s.Set("a/x", value("v")); s.Delete("a/y") }, "13"},
		"update after deletion":   {func(s *server) { s.Delete("a/x"); s.Set("a/y", value("v")) }, "14"},
		"a bookmark of it":        {func(s *server) { s.Delete("a/x"); s.Stream().Send(bookmark("13")) }, "13"},
		"a later bookmark":        {func(s *server) { s.Delete("a/x"); s.Stream().Send(bookmark("20")) }, "20"},
		"an older bookmark":       {func(s *server) { s.Delete("a/x"); s.Stream().Send(bookmark("12")) }, "12"},
		"a deletion that comes twice": {func(s *server) {
			s.Delete("a/x")
			s.Stream().Send(s.History()[0])
		}, "12"},
		"an old server's deletion (W15)": {func(s *server) {
			x := s.Set("a/x", value("v"))
			s.Stream().Send(event{Kind: object.Deleted, Item: simtest.ItemOf(x)})
		}, "13"},
		"an old server's deletion after another": {func(s *server) {
			y := s.Get("a/y")
			s.Delete("a/x")
			s.Stream().Send(event{Kind: object.Deleted, Item: simtest.ItemOf(y)})
		}, "12"},
		"one without a UID": {func(s *server) {
			s.Stream().Send(event{Kind: object.Deleted, Item: simtest.ItemOf(newThing("a/x", "", "13", ""))})
		}, "12"},
		"one that is unreadable": {func(s *server) {
			s.Stream().Send(event{Kind: object.Deleted, Item: item{Version: "13", Err: errors.New("unreadable")}})
		}, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y") // 11, 12
				r := start(t, srv, plain(options{}))
				srv.Requests()
				c.do(srv)
				simtest.Advance(2 * time.Second)
				seen := r.Status().Mark.Version
				r.reaches(seen, c.from)
				// The watch is resumed as soon as the stream is cut.
				if !srv.Version().After("20") {
					srv.SetVersion(20)
				}
				srv.Cut(io.EOF)
				simtest.Advance(0)
				r.requests(fmt.Sprintf("WATCH %q", c.from))
				r.reaches(seen, c.from)
			})
		})
	}
}

// Events replayed from before the version reached must not restore a deleted object.
func TestW14_AResumedWatchRestoresNoDeletedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y") // 11, 12
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		x, y := simtest.ItemOf(srv.Get("a/x")), simtest.ItemOf(srv.Get("a/y"))
		srv.DeleteTogether(2, "a/x", "a/y") // 13
		simtest.Advance(2 * time.Second)
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(time.Second)
		r.changesAre("Deleted a/x@13", "Deleted a/y@13")
		srv.Stream().Send(
			event{Kind: object.Added, Item: x},
			event{Kind: object.Updated, Item: y},
			event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/x", x.UID, "13", ""))},
			event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/y", "another", "13", ""))},
		)
		simtest.Advance(0)
		r.changesAre()
		if s := r.live(); s.Counts.Stale != 6 || s.Counts.Lists != 1 || r.store.Len() != 0 {
			t.Errorf("%d stale, %d lists, %s", s.Counts.Stale, s.Counts.Lists, r.state())
		}
		srv.Set("a/x", value("another life")) // 14
		r.mirrors()
		r.reaches("14", "14")
	})
}

// The earlier version may have been compacted. The list must not be older than the version seen.
func TestL02_AListInsteadOfAResumedWatchIsNotOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{}))
		srv.Requests()
		r.changes.Take()
		srv.DeleteTogether(1, "a/x", "a/y") // 14
		srv.Compact()
		simtest.Advance(2 * time.Second)
		srv.Cut(io.EOF)
		simtest.Advance(time.Second)
		r.requests(`WATCH "13"`, `LIST "14" NotOlderThan`, `WATCH "14"`)
		r.changesAre("Deleted a/x@14", "Deleted a/y@12 unknown")
		r.mirrors()
		r.reaches("14", "14")
		if s := r.live(); s.Counts.Rewinds != 0 {
			t.Errorf("%d rewinds", s.Counts.Rewinds)
		}
	})
}

// The deletions of a removed resource have the version seen, not the earlier one.
func TestW23_ARemovedResourceIsDeletedAtTheVersionSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		srv.DeleteTogether(1, "a/x", "a/y") // 14
		simtest.Advance(2 * time.Second)
		notFound := status(http.StatusNotFound, metav1.StatusReasonNotFound)
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, notFound, true }
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, notFound, true
		}
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(5 * time.Minute)
		r.changesAre("Deleted a/x@14", "Deleted a/y@12 unknown", "Deleted a/z@13 unknown")
		snap := r.store.Snapshot()
		defer snap.Release()
		if m := snap.Mark(object.Everything); m.Version != "14" || !r.Status().Removed {
			t.Errorf("gone at %+v, %+v", m, r.Status())
		}
	})
}

// If the list had no version, there is no version before the deletion to resume from, so the
// reflector lists again.
func TestW14_WithoutAnEarlierVersionADeletionIsFollowedByAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.OnList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			for _, o := range srv.Objects() {
				sink(simtest.ItemOf(o))
			}
			return object.Page{}, nil, true
		}
		r := start(t, srv, plain(options{}))
		srv.Requests()
		srv.Delete("a/x") // 13
		simtest.Advance(2 * time.Second)
		r.reaches("13", "")
		srv.Cut(io.EOF)
		simtest.Advance(time.Second)
		r.requests(`LIST "13" NotOlderThan`, `WATCH ""`)
		r.mirrors()
		r.live()
	})
}

// Objects without a UID come from fake clients, for example, which need not replay events. Replayed
// events are delivered once.
func TestW14_DeletionsWithoutUIDAreDeliveredOnceAndNotFiltered(t *testing.T) {
	for name, again := range map[string]bool{"repeated": true, "not repeated": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				r := start(t, srv, plain(options{}))
				of := func(typ object.Kind, key string, v object.Version) event {
					return event{Kind: typ, Item: simtest.ItemOf(newThing(key, "", v, ""))}
				}
				gone := []event{of(object.Deleted, "a/x", "20"), of(object.Deleted, "a/y", "20")}
				srv.Stream().Send(of(object.Added, "a/x", "11"), of(object.Added, "a/y", "12"), gone[0])
				simtest.Advance(2 * time.Second)
				r.reaches("20", "12")
				next := newStream()
				srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return next, nil, true }
				srv.Cut(io.EOF)
				if again {
					next.Send(gone...)
				}
				next.Send(of(object.Added, "a/z", "15"), of(object.Added, "a/z", "21"))
				simtest.Advance(time.Second)
				r.reaches("21", "21")
				if s := r.live(); s.Counts.Lists != 1 || (s.Counts.Stale == 1) != again || (r.store.Len() == 1) != again {
					t.Errorf("%d lists, %d stale: %s", s.Counts.Lists, s.Counts.Stale, r.state())
				}
			})
		})
	}
}

// A server restored to a state between the complete version and the version seen accepts a
// watch from the former.
func TestW19_ARestoreBetweenTwoVersionsIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		since func(s *server) // after the restore to 13, where a/x is
		epoch object.Epoch
	}{
		"by a version between them": {func(s *server) { s.Set("a/y", value("new")) }, 1},
		"by what does not come again": {func(s *server) {
			s.SetVersion(30)
			s.Set("a/y", value("new"))
		}, 0},
		"by a bookmark": {func(s *server) {
			s.SetVersion(30)
			s.Stream().Send(bookmark("30"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y") // 11, 12
				r := start(t, srv, plain(options{}))
				x := srv.Get("a/x")
				srv.SetVersion(19)
				srv.DeleteTogether(1, "a/x") // 20
				simtest.Advance(2 * time.Second)
				r.reaches("20", "12")
				srv.Load(13, x, srv.Get("a/y"))
				simtest.Advance(time.Second)
				r.live()
				c.since(srv)
				simtest.Advance(time.Minute)
				r.mirrors()
				r.ended(reflector.Rewind, 1+int64(c.epoch)) // and once by the list
				if s := r.live(); s.Mark.Epoch != c.epoch || s.Counts.Lists != 2 {
					t.Errorf("epoch %d, %d lists", s.Mark.Epoch, s.Counts.Lists)
				}
				r.neverBack()
			})
		})
	}
}

// A bookmark older than the version seen comes from an API server that lags behind another.
func TestW14_ABookmarkOfALaggingServerIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.SetVersion(19)
		r := start(t, srv, plain(options{})) // at 19
		srv.SetVersion(29)
		srv.DeleteTogether(1, "a/x", "a/y") // 30
		simtest.Advance(2 * time.Second)
		late := newStream(bookmark("25"))
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return late, nil, true }
		srv.Cut(io.EOF)
		simtest.Advance(time.Second)
		r.reaches("30", "19")
		late.Send(srv.History()[0], srv.History()[1], bookmark("30"))
		r.mirrors()
		r.reaches("30", "30")
		if s := r.live(); s.Counts.Lists != 1 {
			t.Errorf("%d lists", s.Counts.Lists)
		}
	})
}

// Wherever watches end, each event is delivered once and in order.
func TestW14_EveryDeletionIsDeliveredOnceWhereverWatchesEnd(t *testing.T) {
	for seed := range uint64(soak.Rounds(20)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			history, want := groups(rnd)
			src := reflector.SourceFuncs[*thing]{
				ListFunc: func(context.Context, object.ListOptions, *object.Intake[*thing], func(item) error) (object.Page, error) {
					return object.Page{Version: "1"}, nil
				},
				WatchFunc: func(_ context.Context, opts object.WatchOptions, _ *object.Intake[*thing]) (object.Stream[*thing], error) {
					first := slices.IndexFunc(history, func(ev event) bool { return ev.Item.Version.After(opts.Version) })
					return newStream(history[first : first+1+rnd.IntN(len(history)-first)]...).Fail(io.EOF), nil
				},
			}
			buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := reflector.New(src, buffer, plain(options{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var got []string
			last := history[len(history)-1].Item.Version
			for at := object.Version(""); at != last; {
				if err := r.Step(ctx); err != nil {
					t.Fatal(err)
				}
				now := r.Status().Mark.Version
				if at.After(now) {
					t.Errorf("seed %d: from %s back to %s", seed, at, now)
				}
				at = now
				got = append(got, drain(ctx, buffer)...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d:\ntold %q\nwant %q", seed, got, want)
			}
			if s := r.Status(); s.Counts.Lists != 1 {
				t.Errorf("seed %d: %d lists", seed, s.Counts.Lists)
			}
			cancel()
			r.Step(ctx)
		})
	}
}

// groups generates a history from version 2 in which some deletions share a version, and returns
// what the sink must receive. The last change is not a shared deletion.
func groups(rnd *rand.Rand) (history []event, sent []string) {
	version := 1
	add := func(t object.Kind, name int) {
		key := fmt.Sprint("a/", name)
		o := newThing(key, object.UID(fmt.Sprint("u", name)), object.Version(strconv.Itoa(version)), "")
		history = append(history, event{Kind: t, Item: simtest.ItemOf(o)})
		sent = append(sent, fmt.Sprintf("%s@%d %v", key, version, t == object.Deleted))
	}
	names := 0
	for range 3 + rnd.IntN(5) {
		first := names
		for range 1 + rnd.IntN(5) {
			version += 1 + rnd.IntN(3)
			add(object.Added, names)
			names++
		}
		version += 1 + rnd.IntN(3)
		for name := first; name < names; name++ {
			add(object.Deleted, name)
			if rnd.IntN(4) == 0 {
				version++
			}
		}
	}
	version++
	add(object.Added, names)
	return history, sent
}

// drain pops everything that is pending.
func drain(ctx context.Context, buffer *delta.Buffer[*thing]) (sent []string) {
	for {
		ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
		err := buffer.PopBatch(ctx, func(b *object.Batch[*thing]) error {
			for _, d := range b.Changes {
				if d.List == nil {
					sent = append(sent, fmt.Sprintf("%s@%s %v", d.Key, d.Value.Object.ResourceVersion, d.Kind == object.Deleted))
				}
			}
			return nil
		})
		cancel()
		if err != nil {
			return sent
		}
	}
}
