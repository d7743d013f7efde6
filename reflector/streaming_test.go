package reflector_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func newStreamer(keys ...string) *server {
	s := newServer(keys...)
	s.Streams = true
	return s
}

func TestW02_StreamingListEndsAtItsBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x", "a/y")
		p := newStream()
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return p, nil, true }
		r := start(t, srv, options{})
		r.requests(`STREAM "" NotOlderThan`)
		x := srv.Get("a/x")
		p.Send(event{Kind: object.Added, Item: simtest.ItemOf(x)}, bookmark("12"))
		simtest.Advance(0)
		s := r.in(reflector.Streaming)
		if s.Synced || r.store.Len() != 0 || s.Counts.Bookmarks != 1 {
			t.Errorf("a plain bookmark ended it: %+v", s)
		}
		// The end, with an event behind it in the same read.
		y := srv.Get("a/y")
		z := newThing("a/z", "z", "13", "later")
		p.Send(event{Kind: object.Added, Item: simtest.ItemOf(y)},
			event{Bookmark: true, Item: item{Version: "12"}, InitialEnd: true},
			event{Kind: object.Added, Item: simtest.ItemOf(z)})
		simtest.Advance(0)
		s = r.live()
		if got := r.state(); got != "a/x=first@11 a/y=first@12 a/z=later@13" {
			t.Error(got)
		}
		if !s.Synced || s.Mark.Version != "13" || !s.Streaming.InUse || s.Counts.Streamed != 1 || s.Counts.Lists != 1 || s.Counts.Watches != 1 {
			t.Errorf("%+v", s)
		}
		r.requests() // the same stream continues as a watch
	})
}

func TestW02_ChangesDuringTheInitialEventsAreFoldedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer()
		mk := func(key string, uid object.UID, version object.Version, value string) item {
			return simtest.ItemOf(newThing(key, uid, version, value))
		}
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			return newStream(
				event{Kind: object.Added, Item: mk("a/v", "v", "9", "one")},
				event{Kind: object.Added, Item: mk("a/w", "w", "8", "one")},
				event{Kind: object.Added, Item: mk("a/x", "x", "7", "one")},
				event{Kind: object.Added, Item: mk("a/y", "y", "3", "one")},
				event{Kind: object.Added, Item: mk("a/z", "z", "2", "one")},
				event{Kind: object.Updated, Item: mk("a/x", "x", "11", "two")},
				event{Kind: object.Deleted, Item: mk("a/v", "v", "12", "one")},
				event{Kind: object.Updated, Item: mk("a/v", "v", "11", "late")},    // stale
				event{Kind: object.Deleted, Item: mk("a/w", "older", "12", "one")}, // of an earlier object with this name
				event{Kind: object.Updated, Item: mk("a/y", "y", "2", "late")},     // older than the version received
				event{Kind: object.Deleted, Item: mk("a/z", "z", "13", "one")},
				event{Kind: object.Added, Item: mk("a/z", "z2", "14", "new life")},
				event{Kind: object.Added, Item: mk("a/u", "u", "15", "new")},
				event{Bookmark: true, Item: item{Version: "15"}, InitialEnd: true},
			), nil, true
		}
		r := start(t, srv, options{})
		if got := r.state(); got != "a/u=new@15 a/w=one@8 a/x=two@11 a/y=one@3 a/z=new life@14" {
			t.Error(got)
		}
		if s := r.live(); s.Counts.Stale != 3 || s.Counts.Items != 5 {
			t.Errorf("%+v", s.Counts)
		}
	})
}

func TestW03_ResumeVersionStaysUntilTheBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x", "a/y")
		r := start(t, srv, options{})
		r.requests(`STREAM "" NotOlderThan`)
		srv.Set("a/y", value("v")) // 13
		simtest.Advance(0)
		p := newStream(
			event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/y", "u", "40", ""))},
			event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/x", "u", "20", ""))},
			bookmark("41"),
		)
		srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) { return p, nil, n == 2 }
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		if s := r.in(reflector.Streaming); s.Mark.Version != "13" {
			t.Errorf("the version moved to %s", s.Mark.Version)
		}
		p.Fail(io.ErrUnexpectedEOF)
		simtest.Advance(time.Second)
		r.requests(`STREAM "13" NotOlderThan`, `STREAM "13" NotOlderThan`)
		r.mirrors()
	})
}

func TestW04_PartialStreamingListIsDiscarded(t *testing.T) {
	for name, end := range map[string]error{"closed": io.EOF, "cut": io.ErrUnexpectedEOF, "corrupt": object.ErrCorrupt,
		"error event": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newStreamer("a/x", "a/y")
				p := newStream(event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/half", "h", "99", ""))})
				if end == nil {
					p.Send(event{Err: apierrors.NewInternalError(errors.New("etcd"))})
				}
				p.Fail(end)
				srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) { return p, nil, n == 1 }
				r := start(t, srv, options{})
				simtest.Advance(time.Second)
				r.changesAre("Added a/x@11", "Added a/y@12")
				r.live()
				if !p.Closed() {
					t.Error("the broken stream was not closed")
				}
			})
		})
	}
}

func TestW04_StreamsThatNeverFinishAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x")
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			half := event{Kind: object.Added, Item: simtest.ItemOf(srv.Get("a/x"))}
			return newStream(half).Fail(io.ErrUnexpectedEOF), nil, opts.InitialEvents
		}
		r := start(t, srv, options{})
		simtest.Advance(10 * time.Second)
		r.requests(`STREAM "" NotOlderThan`, `STREAM "" NotOlderThan`, `STREAM "" NotOlderThan`, `LIST "0" limit=500`, `WATCH "11"`)
		if s := r.live(); s.Streaming.InUse || s.Streaming.Cause == "" {
			t.Errorf("%+v", s.Streaming)
		}
		r.mirrors()
	})
}

func TestW05_MissingBookmarkFallsBackToListAndIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x", "a/y")
		p := newStream()
		srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) { return p, nil, n == 1 }
		r := start(t, srv, options{InitialSilence: 10 * time.Second})
		// The deadline counts from the last initial event, so three of these are fine.
		for range 3 {
			simtest.Advance(9 * time.Second)
			p.Send(event{Kind: object.Added, Item: simtest.ItemOf(srv.Get("a/x"))})
			simtest.Advance(0)
			r.in(reflector.Streaming)
		}
		// Other events do not extend the deadline.
		simtest.Advance(5 * time.Second)
		p.Send(event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/x", "u", "50", ""))})
		simtest.Advance(4 * time.Second)
		r.in(reflector.Streaming)
		simtest.Advance(time.Second)
		r.requests(`STREAM "" NotOlderThan`, `LIST "0" limit=500`, `WATCH "12"`)
		s := r.live()
		if s.Streaming.InUse || !strings.Contains(s.Streaming.Cause, "bookmark") || !strings.Contains(s.Streaming.Cause, "10s") {
			t.Errorf("%+v", s.Streaming)
		}
		r.ended(reflector.NoBookmark, 1)
		if !p.Closed() {
			t.Error("the stream is still open")
		}
		r.mirrors()
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		r.requests(`LIST "12" NotOlderThan`, `WATCH "12"`) // no streaming list again
	})
}

func TestW06_RefusedStreamingListFallsBackAtOnce(t *testing.T) {
	for name, refusal := range map[string]error{
		"400": apierrors.NewBadRequest("sendInitialEvents is forbidden"),
		"422": &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
					return nil, refusal, opts.InitialEvents
				}
				r := start(t, srv, options{})
				r.requests(`STREAM "" NotOlderThan`, `LIST "0" limit=500`, `WATCH "11"`)
				if s := r.live(); s.Streaming.InUse || s.Streaming.Cause == "" || s.Counts.Waits != 0 {
					t.Errorf("%+v", s)
				}
				r.mirrors()
				srv.Cut(apierrors.NewResourceExpired("gone"))
				simtest.Advance(0)
				r.requests(`LIST "11" NotOlderThan`, `WATCH "11"`)
			})
		})
	}
}

// Servers get upgraded: streaming lists are tried again at the first list after an hour.
func TestW05_AFallbackExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x")
		refuses := true
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden"), opts.InitialEvents && refuses
		}
		r := start(t, srv, options{MinWatchTimeout: 24 * time.Hour})
		expire := func(after time.Duration) {
			simtest.Advance(after)
			srv.Cut(apierrors.NewResourceExpired("gone"))
			simtest.Advance(time.Minute) // it backs off if the previous list did not help
		}
		r.requests(`STREAM "" NotOlderThan`, `LIST "0" limit=500`, `WATCH "11"`)
		expire(50 * time.Minute)
		r.requests(`LIST "11" NotOlderThan`, `WATCH "11"`)
		expire(20 * time.Minute)
		r.requests(`STREAM "11" NotOlderThan`, `LIST "11" NotOlderThan`, `WATCH "11"`)
		if s := r.live(); s.Streaming.InUse || s.Streaming.Cause == "" {
			t.Errorf("%+v", s.Streaming)
		}
		refuses = false
		expire(50 * time.Minute)
		r.requests(`LIST "11" NotOlderThan`, `WATCH "11"`)
		expire(20 * time.Minute)
		r.requests(`STREAM "11" NotOlderThan`)
		if s := r.live(); !s.Streaming.InUse || s.Streaming.Cause != "" || s.Counts.Streamed != 1 {
			t.Errorf("%+v", s.Streaming)
		}
		r.mirrors()
	})
}

func TestStreamingOnNeverFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, options{Streaming: reflector.StreamingOn})
		s := r.in(reflector.BackingOff)
		if !s.Streaming.InUse || !apierrors.IsBadRequest(s.Cause) {
			t.Errorf("%+v", s)
		}
		srv.Do(func() { srv.Streams = true })
		simtest.Advance(time.Second)
		r.requests(`STREAM "" NotOlderThan`, `STREAM "" NotOlderThan`)
		r.mirrors()
		r.live()
	})
}

func TestL03_StreamingListFallsBackToTheMostRecentState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x")
		r := start(t, srv, options{})
		srv.Set("a/x", value("v"))
		simtest.Advance(0)
		srv.OnWatch = func(n int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, simtest.TooLarge(12, 11), opts.Version.Known() && opts.InitialEvents
		}
		srv.Requests()
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		r.requests(`STREAM "12" NotOlderThan`, `STREAM "" NotOlderThan`)
		r.mirrors()
		if s := r.live(); !s.Streaming.InUse || s.Counts.Waits != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestL15_StreamingRelistDecodesOnlyWhatIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newStreamer("a/x", "a/y")
		r := start(t, srv, options{})
		before, _ := r.store.Get(object.RawKey("a/x"))
		r.changes.Take()
		srv.Cut(io.ErrUnexpectedEOF)
		srv.Set("a/y", value("v"))
		srv.Compact()
		simtest.Advance(time.Second)
		r.mirrors()
		r.changesAre("Updated a/y@13")
		if after, _ := r.store.Get(object.RawKey("a/x")); after != before {
			t.Error("the object held was replaced")
		}
		if s := r.live(); s.Counts.Streamed != 2 {
			t.Errorf("%+v", s.Counts)
		}
	})
}
