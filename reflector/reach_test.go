package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
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
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// expire deletes objects at one version, as the end of an etcd lease does. Open streams receive
// only the first few deletions.
func (s *server) expire(sent int, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for i, key := range keys {
		o := *s.objects[keyOf(key)]
		o.version = s.now()
		delete(s.objects, o.key)
		ev := event{Kind: object.Deleted, Item: itemOf(&o)}
		s.history = append(s.history, change{s.version, ev})
		for _, p := range s.streams {
			if i < sent {
				p.send(ev)
			}
		}
	}
}

// reaches checks where a reflector stands, and where it would resume.
func (r *fixture) reaches(seen, resume object.Version) {
	r.t.Helper()
	if s := r.Status(); s.Mark.Version != seen || s.Resume != resume {
		r.t.Errorf("at %s, to be resumed from %s; want %s, %s", s.Mark.Version, s.Resume, seen, resume)
	}
}

func TestW14_DeletionsOfOneVersionSurviveACutBetweenThem(t *testing.T) {
	for name, end := range map[string]func(s *server){
		"in order":   func(s *server) { s.cut(io.EOF) },
		"broken off": func(s *server) { s.cut(io.ErrUnexpectedEOF) },
		"an ERROR": func(s *server) {
			s.stream().send(event{Err: apierrors.NewInternalError(errors.New("etcd"))})
		},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streaming %v", name, streaming), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := newServer("a/x", "a/y", "a/z") // 11, 12, 13
					opts := plain(options{})
					if srv.canStream = streaming; streaming {
						opts = options{}
					}
					r := start(t, srv, opts)
					srv.asked()
					r.takeChanges()
					srv.expire(1, "a/x", "a/y", "a/z") // 14
					advance(2 * time.Second)
					r.changesAre("Deleted a/x@14")
					r.reaches("14", "13")
					end(srv)
					advance(time.Second)
					r.changesAre("Deleted a/y@14", "Deleted a/z@14")
					r.requests(`WATCH "13"`)
					r.mirrors()
					r.live()
					r.reaches("14", "13")

					// And again, when all is known: the next event tells that it is.
					advance(2 * time.Second)
					end(srv)
					srv.put("a/x", "again") // 15
					advance(time.Minute)
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
		"a creation":              {func(s *server) { s.put("a/z", "v") }, "13"},
		"an update":               {func(s *server) { s.put("a/x", "v") }, "13"},
		"a deletion":              {func(s *server) { s.remove("a/x") }, "12"},
		"deletion after deletion": {func(s *server) { s.remove("a/x"); s.remove("a/y") }, "13"},
		"deletion after update":   {func(s *server) { s.put("a/x", "v"); s.remove("a/y") }, "13"},
		"update after deletion":   {func(s *server) { s.remove("a/x"); s.put("a/y", "v") }, "14"},
		"a bookmark of it":        {func(s *server) { s.remove("a/x"); s.stream().send(bookmark("13")) }, "13"},
		"a later bookmark":        {func(s *server) { s.remove("a/x"); s.stream().send(bookmark("20")) }, "20"},
		"an older bookmark":       {func(s *server) { s.remove("a/x"); s.stream().send(bookmark("12")) }, "12"},
		"a deletion that comes twice": {func(s *server) {
			s.remove("a/x")
			s.stream().send(s.history[0].event)
		}, "12"},
		"an old server's deletion (W15)": {func(s *server) {
			x := s.put("a/x", "v")
			s.stream().send(event{Kind: object.Deleted, Item: itemOf(x)})
		}, "13"},
		"an old server's deletion after another": {func(s *server) {
			y := s.objects[keyOf("a/y")]
			s.remove("a/x")
			s.stream().send(event{Kind: object.Deleted, Item: itemOf(y)})
		}, "12"},
		"one without a UID": {func(s *server) {
			s.stream().send(event{Kind: object.Deleted, Item: itemOf(&thing{key: keyOf("a/x"), version: "13"})})
		}, "12"},
		"one that is unreadable": {func(s *server) {
			s.stream().send(event{Kind: object.Deleted, Item: item{Version: "13", Err: errors.New("unreadable")}})
		}, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y") // 11, 12
				r := start(t, srv, plain(options{}))
				srv.asked()
				c.do(srv)
				advance(2 * time.Second)
				seen := r.Status().Mark.Version
				r.reaches(seen, c.from)
				// A watch is resumed as soon as the stream is cut.
				srv.set(func() { srv.version = max(srv.version, 20) })
				srv.cut(io.EOF)
				advance(0)
				r.requests(fmt.Sprintf("WATCH %q", c.from))
				r.reaches(seen, c.from)
			})
		})
	}
}

// What comes again before the version that was reached must not revive anything.
func TestW14_AResumedWatchRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y") // 11, 12
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		x, y := itemOf(srv.objects[keyOf("a/x")]), itemOf(srv.objects[keyOf("a/y")])
		srv.expire(2, "a/x", "a/y") // 13
		advance(2 * time.Second)
		srv.cut(io.ErrUnexpectedEOF)
		advance(time.Second)
		r.changesAre("Deleted a/x@13", "Deleted a/y@13")
		srv.stream().send(
			event{Kind: object.Added, Item: x},
			event{Kind: object.Updated, Item: y},
			event{Kind: object.Updated, Item: itemOf(&thing{key: x.Key, uid: x.UID, version: "13"})},
			event{Kind: object.Added, Item: itemOf(&thing{key: y.Key, uid: "another", version: "13"})},
		)
		advance(0)
		r.changesAre()
		if s := r.live(); s.Counts.Stale != 6 || s.Counts.Lists != 1 || r.store.Len() != 0 {
			t.Errorf("%d stale, %d lists, %s", s.Counts.Stale, s.Counts.Lists, r.state())
		}
		srv.put("a/x", "another life") // 14
		r.mirrors()
		r.reaches("14", "14")
	})
}

// The version before may be forgotten already. The list is not older than what was seen.
func TestL02_AListInsteadOfAResumedWatchIsNotOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{}))
		srv.asked()
		r.takeChanges()
		srv.expire(1, "a/x", "a/y") // 14
		srv.compact()
		advance(2 * time.Second)
		srv.cut(io.EOF)
		advance(time.Second)
		r.requests(`WATCH "13"`, `LIST "14" NotOlderThan`, `WATCH "14"`)
		r.changesAre("Deleted a/x@14", "Deleted a/y@12 unknown")
		r.mirrors()
		r.reaches("14", "14")
		if s := r.live(); s.Counts.Rewinds != 0 {
			t.Errorf("%d rewinds", s.Counts.Rewinds)
		}
	})
}

// Nor do its deletions go back, if the resource is gone when the watch is to be resumed.
func TestW23_ARemovedResourceIsGoneAtTheVersionSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{}))
		r.takeChanges()
		srv.expire(1, "a/x", "a/y") // 14
		advance(2 * time.Second)
		notFound := status(http.StatusNotFound, metav1.StatusReasonNotFound)
		srv.onWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, notFound, true }
		srv.onList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, notFound, true
		}
		srv.cut(io.ErrUnexpectedEOF)
		advance(5 * time.Minute)
		r.changesAre("Deleted a/x@14", "Deleted a/y@12 unknown", "Deleted a/z@13 unknown")
		snap := r.store.Snapshot()
		defer snap.Release()
		if m := snap.Mark(object.Everything); m.Version != "14" || !r.Status().Removed {
			t.Errorf("gone at %+v, %+v", m, r.Status())
		}
	})
}

// Where the list had no version there is none before that of a deletion to resume from: the
// server is asked for everything.
func TestW14_WithoutAnEarlierVersionADeletionIsFollowedByAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.onList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			for _, o := range srv.objects {
				sink(itemOf(o))
			}
			return object.Page{}, nil, true
		}
		r := start(t, srv, plain(options{}))
		srv.asked()
		srv.remove("a/x") // 13
		advance(2 * time.Second)
		r.reaches("13", "")
		srv.cut(io.EOF)
		advance(time.Second)
		r.requests(`LIST "13" NotOlderThan`, `WATCH ""`)
		r.mirrors()
		r.live()
	})
}

// Objects without a UID come from fakes, among others, which need not repeat anything. What
// they repeat is delivered once.
func TestW14_DeletionsWithoutUIDAreToldOnceAndNotJudged(t *testing.T) {
	for name, again := range map[string]bool{"repeated": true, "not repeated": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				r := start(t, srv, plain(options{}))
				of := func(typ object.Kind, key string, v object.Version) event {
					return event{Kind: typ, Item: itemOf(&thing{key: keyOf(key), version: v})}
				}
				gone := []event{of(object.Deleted, "a/x", "20"), of(object.Deleted, "a/y", "20")}
				srv.stream().send(of(object.Added, "a/x", "11"), of(object.Added, "a/y", "12"), gone[0])
				advance(2 * time.Second)
				r.reaches("20", "12")
				next := newPipe()
				srv.onWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return next, nil, true }
				srv.cut(io.EOF)
				if again {
					next.send(gone...)
				}
				next.send(of(object.Added, "a/z", "15"), of(object.Added, "a/z", "21"))
				advance(time.Second)
				r.reaches("21", "21")
				if s := r.live(); s.Counts.Lists != 1 || (s.Counts.Stale == 1) != again || (r.store.Len() == 1) != again {
					t.Errorf("%d lists, %d stale: %s", s.Counts.Lists, s.Counts.Stale, r.state())
				}
			})
		})
	}
}

// A server that was restored to a state between the version that was complete and the one
// that was seen takes a watch from the first.
func TestW19_ARestoreBetweenTwoVersionsIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		since func(s *server) // after the restore to 13, where a/x is
		epoch object.Epoch
	}{
		"by a version between them": {func(s *server) { s.put("a/y", "new") }, 1},
		"by what does not come again": {func(s *server) {
			s.set(func() { s.version = 30 })
			s.put("a/y", "new")
		}, 0},
		"by a bookmark": {func(s *server) {
			s.set(func() { s.version = 30 })
			s.stream().send(bookmark("30"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y") // 11, 12
				r := start(t, srv, plain(options{}))
				x := srv.objects[keyOf("a/x")]
				srv.set(func() { srv.version = 19 })
				srv.expire(1, "a/x") // 20
				advance(2 * time.Second)
				r.reaches("20", "12")
				srv.cut(io.ErrUnexpectedEOF)
				srv.set(func() {
					srv.version, srv.history = 13, nil
					srv.objects[x.key] = x
				})
				advance(time.Second)
				r.live()
				c.since(srv)
				advance(time.Minute)
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

// A bookmark before what was seen is that of a server that lags behind another.
func TestW14_ABookmarkOfAServerThatLagsBehindIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.set(func() { srv.version = 19 })
		r := start(t, srv, plain(options{})) // at 19
		srv.set(func() { srv.version = 29 })
		srv.expire(1, "a/x", "a/y") // 30
		advance(2 * time.Second)
		late := newPipe(bookmark("25"))
		srv.onWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return late, nil, true }
		srv.cut(io.EOF)
		advance(time.Second)
		r.reaches("30", "19")
		late.send(srv.history[0].event, srv.history[1].event, bookmark("30"))
		r.mirrors()
		r.reaches("30", "30")
		if s := r.live(); s.Counts.Lists != 1 {
			t.Errorf("%d lists", s.Counts.Lists)
		}
	})
}

// everything is a delta.Known that claims every key, so that behind the reflector nothing is
// dropped for being no news.
type everything struct{}

func (everything) Keys() iter.Seq[object.Key]                       { return func(func(object.Key) bool) {} }
func (everything) Get(object.Key) (*thing, bool)                    { return &thing{}, true }
func (everything) Held(object.Key, object.UID, object.Version) bool { return false }

// Wherever watches end, each event is delivered once, and in order.
func TestW14_EveryDeletionIsToldOnceWhereverWatchesEnd(t *testing.T) {
	for seed := range uint64(soak.Rounds(50)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			history, want := groups(rnd)
			src := reflector.SourceFuncs[*thing]{
				ListFunc: func(context.Context, object.ListOptions, *object.Intake[*thing], func(item) error) (object.Page, error) {
					return object.Page{Version: "1"}, nil
				},
				WatchFunc: func(_ context.Context, opts object.WatchOptions, _ *object.Intake[*thing]) (object.Stream[*thing], error) {
					from, _ := strconv.Atoi(string(opts.Version))
					first := slices.IndexFunc(history, func(c change) bool { return c.version > from })
					p := newPipe()
					for _, c := range history[first : first+1+rnd.IntN(len(history)-first)] {
						p.send(c.event)
					}
					return p.fail(io.EOF), nil
				},
			}
			fifo, err := delta.New(things, delta.Options[*thing]{Known: everything{}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := reflector.New(src, fifo, plain(options{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var got []string
			last := history[len(history)-1].version
			for at := object.Version(""); at != object.Version(strconv.Itoa(last)); {
				if err := r.Step(ctx); err != nil {
					t.Fatal(err)
				}
				now := r.Status().Mark.Version
				if at.After(now) {
					t.Errorf("seed %d: from %s back to %s", seed, at, now)
				}
				at = now
				got = append(got, drain(ctx, fifo)...)
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

// groups makes a history up, from version 2 on, in which some deletions share a version, and
// says what the sink must receive of it. The last change is none of them.
func groups(rnd *rand.Rand) (history []change, sent []string) {
	version := 1
	add := func(t object.Kind, name int) {
		o := &thing{key: keyOf(fmt.Sprint("a/", name)), uid: object.UID(fmt.Sprint("u", name)), version: object.Version(strconv.Itoa(version))}
		history = append(history, change{version, event{Kind: t, Item: itemOf(o)}})
		sent = append(sent, fmt.Sprintf("%s@%d %v", o.key, version, t == object.Deleted))
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

// drain takes what is pending.
func drain(ctx context.Context, fifo *delta.FIFO[*thing]) (sent []string) {
	for {
		ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
		err := fifo.PopBatch(ctx, func(b *object.Batch[*thing], _ bool) error {
			for _, d := range b.Changes {
				if d.List == nil {
					sent = append(sent, fmt.Sprintf("%s@%s %v", d.Key, d.Object.version, d.Kind == object.Deleted))
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
