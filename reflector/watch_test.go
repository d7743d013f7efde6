package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func status(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: fmt.Sprintf("%d %s", code, reason)}}
}

func refused() error {
	return &url.Error{Op: "Get", URL: "https://example.com", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
}

func TestW01_WatchFromNoVersionBeginsWithTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.OnList = func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			srv.Answer(opts, nil, sink)
			return object.Page{}, nil, true // a list without a version
		}
		var p *stream
		srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) {
			p = newStream()
			for _, k := range []string{"a/y", "a/x"} { // not sorted
				p.Send(event{Kind: object.Added, Item: simtest.ItemOf(srv.Get(k))})
			}
			return p, nil, true
		}
		r := start(t, srv, plain(options{}))
		r.requests(`LIST "0" limit=500`, `WATCH ""`)
		r.mirrors()
		r.changesAre("Added a/x@11", "Added a/y@12")
		if s := r.live(); s.Mark.Version != "" || s.Counts.Stale != 2 {
			t.Errorf("synthetic events moved the version: %+v", s)
		}
		// The first comparable version ends that.
		p.Send(event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/x", "u11", "13", "v"))})
		simtest.Advance(2 * time.Second)
		if s := r.live(); s.Mark.Version != "13" {
			t.Errorf("%+v", s.Mark)
		}
		p.Fail(io.EOF)
		simtest.Advance(0)
		r.requests(`WATCH "13"`)
	})
}

func TestW01_UnorderedStateThatIsNotHeldNeedsAnotherList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.OnList = func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			srv.Answer(opts, nil, sink)
			return object.Page{}, nil, true
		}
		srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) {
			if n == 1 { // two objects are created between the list and the watch
				srv.Set("a/y", value("new"))
				srv.Set("a/z", value("new"))
			}
			p := newStream()
			for _, k := range []string{"a/z", "a/y", "a/x"} {
				p.Send(event{Kind: object.Added, Item: simtest.ItemOf(srv.Get(k))})
			}
			return p, nil, true
		}
		r := start(t, srv, plain(options{}))
		simtest.Advance(time.Second)
		r.mirrors()
		r.live()
		r.ended(reflector.Unordered, 1)
		r.requests(`LIST "0" limit=500`, `WATCH ""`, `LIST "" limit=500`, `WATCH ""`)
	})
}

func TestW01_WithoutAVersionTheEndOfAWatchNeedsAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		srv.OnList = func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			srv.Answer(opts, nil, sink)
			return object.Page{}, nil, true
		}
		var p *stream
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			p = newStream()
			return p, nil, true
		}
		r := start(t, srv, plain(options{}))
		simtest.Advance(2 * time.Second)
		srv.Delete("a/y")
		p.Fail(io.EOF)
		simtest.Advance(0)
		r.mirrors()
		r.requests(`LIST "0" limit=500`, `WATCH ""`, `LIST "" limit=500`, `WATCH ""`)
	})
}

func TestW07_BookmarkMovesTheVersionAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		r.changes.Take()
		srv.SetVersion(20)
		srv.Stream().Send(bookmark("20"))
		simtest.Advance(2 * time.Second)
		r.changesAre()
		if s := r.live(); s.Mark.Version != "20" || s.Counts.Bookmarks != 1 || s.Counts.Events != 0 {
			t.Errorf("%+v", s)
		}
		snap := r.store.Snapshot()
		defer snap.Release()
		if snap.Version() != "20" {
			t.Errorf("the store is at %s", snap.Version())
		}
		srv.Stream().Send(bookmark("15")) // must not move back
		srv.Cut(io.EOF)
		simtest.Advance(0)
		r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "20"`)
	})
}

func TestW08_ExpiredLeadsToARelist(t *testing.T) {
	for _, reason := range []metav1.StatusReason{metav1.StatusReasonExpired, metav1.StatusReasonGone} {
		expired := status(http.StatusGone, reason)
		for name, in := range map[string]func(*server, *stream){
			"event": func(_ *server, p *stream) {
				p.Send(event{Err: expired})
			},
			"status": func(srv *server, p *stream) {
				srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
					return nil, expired, opts.Version == "12"
				}
				p.Fail(io.EOF)
			},
		} {
			t.Run(fmt.Sprint(reason, " as ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := newServer("a/x")
					r := start(t, srv, plain(options{}))
					srv.Set("a/x", value("v")) // 12
					simtest.Advance(2 * time.Second)
					srv.Requests()
					// The list follows immediately, so the change is made before.
					dead := srv.Stream()
					srv.Mute()
					srv.Set("a/y", value("missed")) // 13
					in(srv, dead)
					simtest.Advance(0)
					got := srv.Requests()
					want := []string{`LIST "12" NotOlderThan`, `WATCH "13"`}
					if name == "status" {
						want = slices.Insert(want, 0, `WATCH "12"`)
					}
					if !slices.Equal(got, want) {
						t.Errorf("requests %q, want %q", got, want)
					}
					r.mirrors()
					r.live()
					r.ended(reflector.Expired, 1)
					if !dead.Closed() {
						t.Error("the dead stream was not closed")
					}
				})
			})
		}
	}
}

// The server deleted an object that it could not read from its storage, and no event names it.
func TestW08_AStorageReadErrorLeadsToARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/corrupt") // 11, 12
		r := start(t, srv, plain(options{}))
		srv.Requests()
		dead := srv.Stream()
		srv.Mute()
		srv.Delete("a/corrupt") // 13
		dead.Send(event{Err: status(http.StatusInternalServerError, metav1.StatusReasonStoreReadError)})
		simtest.Advance(0)
		if got, want := srv.Requests(), []string{`LIST "12" NotOlderThan`, `WATCH "13"`}; !slices.Equal(got, want) {
			t.Errorf("requests %q, want %q", got, want)
		}
		r.mirrors()
		r.live()
	})
}

func TestW08_ListsThatDoNotHelpAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			return nil, status(http.StatusGone, metav1.StatusReasonExpired), true
		}
		r := start(t, srv, plain(options{}))
		simtest.Advance(10 * time.Minute)
		if n := srv.Counts().Lists; n < 5 || n > 35 {
			t.Errorf("%d lists in 10 minutes", n)
		}
		r.in(reflector.BackingOff)
	})
}

func TestW09_BackOffAndWatchAgainFromTheSameVersion(t *testing.T) {
	for name, failure := range map[string]error{
		"429":     apierrors.NewTooManyRequests("slow down", 0),
		"503":     apierrors.NewServiceUnavailable("etcd is down"),
		"refused": refused(),
		"reset":   syscall.ECONNRESET,
		"EOF":     &url.Error{Op: "Get", URL: "https://example.com", Err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				r := start(t, srv, plain(options{}))
				srv.OnWatch = func(n int, _ object.WatchOptions) (object.Stream[*thing], error, bool) {
					return nil, failure, n <= 4
				}
				srv.Cut(failure)
				srv.Set("a/y", value("missed"))
				simtest.Advance(0)
				s := r.in(reflector.BackingOff)
				if !errors.Is(s.Cause, failure) || s.Until.Sub(s.Since) != 800*time.Millisecond || s.Connected {
					t.Errorf("%v until %v", s, s.Until)
				}
				simtest.Advance(12*time.Second - time.Millisecond) // 0.8 + 1.6 + 3.2 + 6.4
				r.in(reflector.BackingOff)
				simtest.Advance(time.Millisecond)
				r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`)
				r.mirrors()
				if s := r.live(); s.Counts.Lists != 1 || s.Counts.Waits != 4 {
					t.Errorf("%+v", s.Counts)
				}
			})
		})
	}
}

func TestW09_RetryAfterIsHonoured(t *testing.T) {
	for _, tc := range []struct {
		after int
		want  time.Duration
	}{{20, 20 * time.Second}, {86400, 10 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer("a/x")
			r := start(t, srv, plain(options{Rand: func() float64 { return 0.5 }}))
			srv.Stream().Send(event{Err: apierrors.NewTooManyRequests("slow down", tc.after)})
			simtest.Advance(0)
			s := r.in(reflector.BackingOff)
			if got := s.Until.Sub(s.Since); got != tc.want+400*time.Millisecond {
				t.Errorf("waits %v", got)
			}
			r.ended(reflector.Throttled, 1)
		})
	}
}

// A Wake after an outage must not add to the load that the server has asked to keep away.
func TestW09_WakeDoesNotShortenARetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{Rand: func() float64 { return 0.5 }, Backoff: reflector.Backoff{Min: time.Hour, Max: time.Hour}}))
		srv.Requests()
		srv.Stream().Send(event{Err: apierrors.NewTooManyRequests("slow down", 20)})
		simtest.Advance(5 * time.Second)
		for range 3 {
			r.Wake()
			simtest.Advance(4 * time.Second)
			if s := r.in(reflector.BackingOff); s.Until.Sub(s.Since) != 20*time.Second {
				t.Errorf("it waits until %v after the failure", s.Until.Sub(s.Since))
			}
		}
		r.requests()
		simtest.Advance(3 * time.Second)
		r.requests(`WATCH "11"`)
		r.live()
	})
}

func TestW10_ServerErrorsAreRetriedThenListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{ServerErrorsFor: 10 * time.Second}))
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			p := newStream(event{Err: apierrors.NewInternalError(errors.New("etcd"))})
			return p, nil, opts.Version == "11"
		}
		srv.Requests()
		srv.Stream().Send(event{Err: apierrors.NewInternalError(errors.New("etcd"))})
		simtest.Advance(0)
		srv.Mute()
		srv.Set("a/y", value("missed"))
		if s := r.in(reflector.BackingOff); !apierrors.IsInternalError(s.Cause) {
			t.Error(s.Cause)
		}
		simtest.Advance(time.Minute) // 0.8 + 1.6 + 3.2 + 6.4 is over the deadline
		r.requests(`WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `LIST "11" NotOlderThan`, `WATCH "12"`)
		r.mirrors()
		r.live()
		r.ended(reflector.ServerError, 5)
	})
}

func TestW11_TimeoutIsTheNormalEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		var timeouts []string
		srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
			timeouts = append(timeouts, opts.Timeout.String())
			return nil, nil, false
		}
		draws := []float64{0, 0.5, 0.999}
		r := start(t, srv, plain(options{Rand: func() float64 {
			d := draws[0]
			draws = append(draws[1:], d)
			return d
		}}))
		for range 2 {
			simtest.Advance(5 * time.Minute)
			srv.Set("a/x", value("v"))
			srv.Cut(io.EOF)
			simtest.Advance(0)
			r.live()
		}
		r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "12"`, `WATCH "13"`)
		if want := []string{"5m0s", "7m30s", "9m59.7s"}; !slices.Equal(timeouts, want) {
			t.Errorf("timeouts %v, want %v", timeouts, want)
		}
		r.mirrors()
		if s := r.Status(); s.Counts.Ended[reflector.Closed] != 2 || s.Counts.Waits != 0 || s.LastError != nil || r.lastErr() != nil {
			t.Errorf("%+v", s)
		}
	})
}

// reason returns the reason of a reflector's error.
func reason(err error) reflector.Reason {
	if e := (*reflector.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func TestW12_WatchClosedAtOnceIsAnErrorAndThenAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		empty := true
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			return newStream().Fail(io.EOF), nil, empty // 200 with an empty body
		}
		r := start(t, srv, plain(options{}))
		s := r.in(reflector.BackingOff)
		if reason(s.Cause) != reflector.Short {
			t.Error(s.Cause)
		}
		simtest.Advance(6 * time.Second) // 0.8 + 1.6 + 3.2
		r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "11"`, `WATCH "11"`, `LIST "11" NotOlderThan`, `WATCH "11"`)
		if r.Status().Failing {
			t.Error("it is failing before the list had a chance to help")
		}
		simtest.Advance(10 * time.Minute)
		s = r.in(reflector.BackingOff)
		if n := srv.Counts().Watches; n > 40 || !s.Failing || reason(s.Cause) != reflector.Short {
			t.Errorf("%d watches in 10 minutes, %+v", n, s)
		}
		srv.Do(func() { empty = false })
		srv.Set("a/y", value("v"))
		simtest.Advance(2 * time.Minute)
		srv.Set("a/y", value("w"))
		r.mirrors()
		r.live()
	})
}

func TestW12_WatchesThatEndAtOnceWithAnEventAreNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		n := 11
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			n++
			return newStream(bookmark(object.Version(fmt.Sprint(n)))).Fail(io.EOF), nil, true
		}
		r := start(t, srv, plain(options{}))
		simtest.Advance(10 * time.Minute)
		if c := srv.Counts(); c.Watches > 50 || c.Lists != 1 {
			t.Errorf("%d watches and %d lists in 10 minutes", c.Watches, c.Lists)
		}
		r.in(reflector.BackingOff)
	})
}

func TestW13_SilentStreamIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		silent := srv.Stream()
		simtest.Advance(4 * time.Minute)
		silent.Send(bookmark("11"))
		simtest.Advance(time.Minute) // the server should have ended it now
		r.live()
		srv.Mute()
		srv.Set("a/y", value("missed"))
		simtest.Advance(30*time.Second - time.Millisecond)
		r.live()
		simtest.Advance(time.Millisecond)
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrIdle) || !silent.Closed() {
			t.Errorf("%v", s)
		}
		r.ended(reflector.Silent, 1)
		simtest.Advance(time.Second)
		r.requests(`LIST "0" limit=500`, `WATCH "11"`, `WATCH "11"`)
		r.mirrors()
		r.live()
	})
}

func TestW13_SilenceCanBeShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{Silence: 90 * time.Second}))
		for range 5 {
			simtest.Advance(89 * time.Second)
			srv.Stream().Send(bookmark("11"))
			simtest.Advance(0)
			r.live()
		}
		simtest.Advance(90 * time.Second)
		r.in(reflector.BackingOff)
	})
}

func TestW13_RequestThatIsNeverAnsweredIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := prepare(t, srv, plain(options{ListSilence: time.Minute}))
		release := make(chan struct{})
		srv.OnList = func(n int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if n > 1 {
				return object.Page{}, nil, false
			}
			for range 3 { // slow, but not silent
				<-time.After(50 * time.Second)
				sink(item{Key: object.RawKey("a/x"), UID: "u", Version: "11"})
			}
			<-release
			return object.Page{}, io.ErrUnexpectedEOF, true
		}
		done := make(chan error)
		go func() { r.Step(t.Context()); done <- r.Step(t.Context()) }()
		simtest.Advance(150*time.Second + time.Minute)
		close(release) // this server ignores contexts; a real one would return
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrIdle) {
			t.Errorf("%v", s)
		}
		stopped(t, r)
	})
}

func TestStatusReadsLikeASentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{Name: "pods"}))
		srv.Stream().Send(event{Err: apierrors.NewTooManyRequests("slow down", 8)})
		simtest.Advance(0)
		if got := r.Status().String(); !strings.HasPrefix(got, "pods: BackingOff 8s: reflector pods: watch: ") {
			t.Error(got)
		}
	})
}
