package reflector_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// restore makes the server what it was at a version, as from a backup, with other contents
// of the same versions.
func restore(srv *server, version int, keys ...string) {
	var objs []*thing
	for _, k := range keys {
		version++
		v := object.Version(strconv.Itoa(version))
		o := newThing(k, "u"+object.UID(v), v, "restored")
		if was := srv.Get(k); was != nil {
			o.UID = was.UID
		}
		objs = append(objs, o)
	}
	srv.Load(version, objs...)
	srv.Compact()
}

func TestW19_RewindBeginsANewEpoch(t *testing.T) {
	for _, mode := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
		t.Run("streaming "+mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newStreamer("a/x", "a/y")
				r := start(t, srv, options{Streaming: mode})
				for range 5 {
					srv.Set("a/z", value("v"))
				}
				simtest.Advance(0)
				srv.Requests()
				r.changes.Take()
				// x is at version 11 again, with the same UID and different contents.
				srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
					return nil, simtest.TooLarge(17, 11), opts.Version == "17"
				}
				restore(srv, 10, "a/x")
				simtest.Advance(time.Second)
				r.mirrors()
				s := r.live()
				if s.Mark != (object.Mark{Epoch: 1, Version: "11"}) || s.Counts.Rewinds != 1 {
					t.Errorf("%+v", s)
				}
				if err := r.lastErr(); !strings.Contains(err.Error(), "went back from 17 to 11, as after a restore from a backup") {
					t.Errorf("reported: %v", err)
				}
				r.ended(reflector.Rewind, 1)
				r.changesAre("Updated a/x@11", "Deleted a/y@12 unknown", "Deleted a/z@17 unknown")
				snap := r.store.Snapshot()
				defer snap.Release()
				if m := slices.Collect(snap.Marks()); len(m) != 1 || m[0].Epoch != 1 {
					t.Errorf("the store is at %v", m)
				}
				// Low versions are current in the new epoch.
				srv.Do(func() { srv.OnWatch = nil })
				srv.Set("a/y", value("again")) // 12
				r.mirrors()
				if got := r.live(); got.Mark.Version != "12" || got.Counts.Stale != 0 {
					t.Errorf("%+v", got)
				}
				switch mode {
				case reflector.StreamingOff:
					r.requests(`WATCH "17"`, `LIST "" limit=500`, `LIST "" limit=500 afresh`, `WATCH "11"`)
				default:
					r.requests(`WATCH "17"`, `STREAM "" NotOlderThan`, `STREAM "" NotOlderThan`)
				}
			})
		})
	}
}

func TestW19_ListWithNothingHeldServesTheNewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.Set("a/z", value("v"))
		simtest.Advance(0)
		srv.Requests()
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, status(http.StatusGone, metav1.StatusReasonExpired), opts.Version == "12"
		}
		restore(srv, 8, "b/x") // an object that the store does not hold, at 9
		simtest.Advance(time.Second)
		r.requests(`WATCH "12"`, `LIST "12" NotOlderThan`, `LIST "" limit=500`, `WATCH "9"`)
		r.mirrors()
		if s := r.live(); s.Mark.Epoch != 1 {
			t.Errorf("%+v", s.Mark)
		}
	})
}

func TestW19_ANewEpochOutlastsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		for range 5 {
			srv.Set("a/z", value("v"))
		}
		simtest.Advance(0)
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, simtest.TooLarge(16, 11), opts.Version == "16"
		}
		restore(srv, 10, "a/x")
		srv.OnList = func(n int, _ object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			return object.Page{}, io.ErrUnexpectedEOF, n == 3 || n == 4 // the lists that would start the epoch
		}
		srv.Requests()
		simtest.Advance(time.Second)
		if s := r.in(reflector.BackingOff); s.Mark != (object.Mark{Version: "16"}) {
			t.Errorf("%+v", s.Mark)
		}
		simtest.Advance(time.Minute)
		r.requests(`WATCH "16"`, `LIST "" limit=500`, `LIST "" limit=500 afresh`, `LIST "" limit=500 afresh`, `LIST "" limit=500 afresh`, `WATCH "11"`)
		r.mirrors()
		if s := r.live(); s.Mark != (object.Mark{Epoch: 1, Version: "11"}) || s.Counts.Rewinds != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestW20_BrokenFramesAreWatchedAgainThenListedThenVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		srv.Requests()
		broken := true
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			return newStream().Fail(fmt.Errorf("frame of 2 GiB: %w", object.ErrCorrupt)), nil, broken
		}
		srv.Stream().Fail(object.ErrCorrupt)
		srv.Mute()
		simtest.Advance(0)
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrCorrupt) {
			t.Error(s.Cause)
		}
		simtest.Advance(6 * time.Second)
		r.requests(`WATCH "11"`, `WATCH "11"`, `LIST "11" NotOlderThan`, `WATCH "11"`)
		if r.Status().Failing {
			t.Error("failing before the list had a chance to help")
		}
		simtest.Advance(5 * time.Minute)
		s := r.in(reflector.BackingOff)
		if !s.Failing || !errors.Is(s.Cause, object.ErrCorrupt) {
			t.Errorf("not visible: %+v", s)
		}
		r.changesAre()
		if n := srv.Counts().Watches; n > 20 {
			t.Errorf("%d watches in 5 minutes", n)
		}
		srv.Do(func() { broken = false })
		simtest.Advance(2 * time.Minute)
		srv.Set("a/x", value("v"))
		r.mirrors()
		r.live()
	})
}

func TestW20_GoodEventsBeforeTheBrokenFrameCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		for range 8 { // each at a different version
			srv.Set("a/x", value("v"))
			srv.Cut(object.ErrCorrupt)
			simtest.Advance(0)
			r.in(reflector.BackingOff)
			simtest.Advance(30 * time.Second)
			r.live()
		}
		r.mirrors()
		if s := r.live(); s.Counts.Lists != 1 || s.Counts.Ended[reflector.Corrupt] != 8 {
			t.Errorf("%+v", s.Counts)
		}
	})
}

func TestW20_ConnectionThatAlwaysBreaksAtTheSamePlaceIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			// A proxy that cannot forward the next frame.
			return newStream().Fail(io.ErrUnexpectedEOF), nil, opts.Version == "11"
		}
		srv.Cut(io.ErrUnexpectedEOF)
		srv.Set("a/y", value("too large for the proxy"))
		simtest.Advance(6 * time.Second)
		r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `LIST "11" NotOlderThan`, `WATCH "12"`)
		r.mirrors()
		r.live()
	})
}

func TestW20_UnwatchableResourceIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed), true
		}
		r := start(t, srv, plain(options{}))
		simtest.Advance(5 * time.Minute)
		srv.Set("a/y", value("v"))
		simtest.Advance(3 * time.Minute)
		r.mirrors()
		if s := r.in(reflector.BackingOff); !s.Failing || s.Counts.Ended[reflector.Rejected] == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestW22_WaitsDoubleAreRandomAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		down := true
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, refused(), down
		}
		r := start(t, srv, plain(options{Rand: func() float64 { return 0.25 }}))
		wait := func() time.Duration {
			s := r.in(reflector.BackingOff)
			d := s.Until.Sub(s.Since)
			simtest.Advance(time.Until(s.Until))
			return d
		}
		var got []time.Duration
		for range 8 {
			got = append(got, wait())
		}
		ms := time.Millisecond
		want := []time.Duration{1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 32000 * ms, 37500 * ms, 37500 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("waits %v, want %v", got, want)
		}
		srv.Do(func() { down = false })
		wait()
		r.live()
		simtest.Advance(time.Minute) // too short to reset the back-off
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(0)
		if d := wait(); d != 37500*ms {
			t.Errorf("after a quiet minute: %v", d)
		}
		r.live()
		simtest.Advance(2 * time.Minute)
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(0)
		if d := wait(); d != 1000*ms {
			t.Errorf("after two quiet minutes: %v", d)
		}
		r.mirrors()
	})
}

func TestW22_WaitsAreSpreadOverTwiceTheirLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var least, most time.Duration = time.Hour, 0
		for range 200 {
			srv := newServer()
			srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
				return object.Page{}, refused(), true
			}
			r := prepare(t, srv, options{Streaming: reflector.StreamingOff, Rand: randFloat})
			for range 2 {
				if err := r.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s := r.in(reflector.BackingOff)
			least, most = min(least, s.Until.Sub(s.Since)), max(most, s.Until.Sub(s.Since))
		}
		if least < 800*time.Millisecond || most >= 1600*time.Millisecond || most-least < 600*time.Millisecond {
			t.Errorf("waits from %v to %v", least, most)
		}
	})
}

func TestW22_BudgetBoundsConcurrentLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := reflector.NewBudget(2)
		var mu sync.Mutex
		var now, most int
		gate := make(chan struct{})
		mk := func(stream bool) *fixture {
			srv := newStreamer("a/x", "a/y", "a/z")
			srv.Unlimited = "none"
			opts := options{Budget: budget, PageSize: 2}
			if !stream {
				opts.Streaming = reflector.StreamingOff
			}
			srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
				if opts.Continue != "" {
					<-gate
				}
				mu.Lock()
				defer mu.Unlock()
				if opts.Continue != "" {
					now--
				} else {
					now++
					most = max(most, now)
				}
				return object.Page{}, nil, false
			}
			return start(t, srv, opts)
		}
		fixtures := []*fixture{mk(false), mk(false), mk(false), mk(true), mk(false)}
		simtest.Advance(0)
		if now != 2 || budget.InUse() != 2 || budget.Size() != 2 {
			t.Fatalf("%d list, the budget says %d of %d", now, budget.InUse(), budget.Size())
		}
		close(gate)
		for _, r := range fixtures {
			r.mirrors()
			r.live()
		}
		if most != 2 || budget.InUse() != 0 {
			t.Errorf("%d at a time, %d in use afterwards", most, budget.InUse())
		}
	})
}

func TestW22_FailedListReleasesItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := reflector.NewBudget(0) // at least one
		broken := newServer()
		broken.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, refused(), true
		}
		start(t, broken, plain(options{Budget: budget}))
		good := start(t, newServer("a/x"), plain(options{Budget: budget}))
		good.mirrors()
		good.live()
	})
}

func TestW23_StateStaysReadableAndResumes(t *testing.T) {
	for name, failure := range map[string]error{
		"401": status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized),
		"403": status(http.StatusForbidden, metav1.StatusReasonForbidden),
		"TLS": &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"DNS": &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.example.com"}},
	} {
		reasons := map[string]reflector.Reason{"401": reflector.Unauthorized, "403": reflector.Forbidden, "TLS": reflector.TLS, "DNS": reflector.DNS}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				r := start(t, srv, plain(options{}))
				before := r.state()
				down := true
				srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, failure, down }
				srv.Cut(io.ErrUnexpectedEOF)
				simtest.Advance(5 * time.Minute)
				s := r.in(reflector.BackingOff)
				if !errors.Is(s.Cause, failure) || s.Live() || r.state() != before || !s.Synced {
					t.Errorf("%+v with %s", s, r.state())
				}
				if s.Counts.Ended[reasons[name]] < 5 || s.Counts.Lists != 1 {
					t.Errorf("%+v", s.Counts)
				}
				srv.Do(func() { down = false })
				srv.Set("a/y", value("v"))
				simtest.Advance(time.Minute)
				r.mirrors()
				r.live()
			})
		})
	}
}

func TestW23_RemovedResourceDeletesItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		gone := true
		notFound := status(http.StatusNotFound, metav1.StatusReasonNotFound)
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, notFound, gone }
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, notFound, gone
		}
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(25 * time.Second)
		s := r.in(reflector.BackingOff)
		if r.store.Len() != 2 || s.Removed || !apierrors.IsNotFound(s.Cause) {
			t.Errorf("gone too early: %+v", s)
		}
		simtest.Advance(time.Minute)
		r.changesAre("Deleted a/x@11 unknown", "Deleted a/y@12 unknown")
		if s := r.in(reflector.BackingOff); !s.Removed {
			t.Errorf("%+v", s)
		}
		simtest.Advance(5 * time.Minute)
		r.changesAre()
		srv.Do(func() { gone = false })
		restore(srv, 20, "a/z")
		simtest.Advance(time.Minute)
		r.mirrors()
		r.changesAre("Added a/z@21")
		if s := r.live(); s.Removed || s.Mark.Epoch != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestW23_TemporaryNotFoundDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		notFound := status(http.StatusNotFound, metav1.StatusReasonNotFound)
		answer := notFound
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, answer, answer != nil }
		srv.OnList = func(n int, _ object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			if n%3 == 0 { // every third response differs
				return object.Page{}, status(http.StatusForbidden, metav1.StatusReasonForbidden), answer != nil
			}
			return object.Page{}, answer, answer != nil
		}
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(20 * time.Minute)
		r.changesAre()
		srv.Do(func() { answer = nil })
		simtest.Advance(time.Minute)
		r.changesAre()
		r.live()
	})
}

func TestW23_RemovedAfterCanBeTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{RemovedAfter: -1}))
		notFound := status(http.StatusNotFound, metav1.StatusReasonNotFound)
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return nil, notFound, true }
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, notFound, true
		}
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(time.Hour)
		if r.store.Len() != 1 {
			t.Error("deleted")
		}
	})
}
