package reflector_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

func randFloat() float64 { return rand.Float64() }

// is reports whether an error has a text.
func is(err error, text string) bool { return err != nil && err.Error() == text }

// stopped ends a fixture that is stepped.
func stopped(t *testing.T, r *fixture) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Step(ctx); !errors.Is(err, context.Canceled) && !is(err, "reflector: stopped; make a new one") {
		t.Errorf("the last step: %v", err)
	}
	r.in(reflector.Stopped)
}

func TestStepsAreOnePageOneBatchOneRequestOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		r := prepare(t, srv, plain(options{PageSize: 2}))
		step := func(state reflector.State, page int, requests ...string) {
			t.Helper()
			if err := r.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := r.in(state); s.Page != page {
				t.Errorf("page %d, want %d", s.Page, page)
			}
			r.requests(requests...)
		}
		r.in(reflector.Idle)
		step(reflector.Listing, 1)
		step(reflector.Listing, 2, `LIST "0" limit=2`)
		step(reflector.Watching, 0, `LIST continue=c2 limit=2`)
		step(reflector.Watching, 0, `WATCH "13"`)
		srv.Set("a/x", value("v"))
		srv.Set("a/y", value("v"))
		synctest.Wait() // both have arrived
		step(reflector.Watching, 0)
		if s := r.live(); s.Mark.Version != "15" || s.Counts.Events != 2 || s.Counts.Watches != 1 {
			t.Errorf("%+v", s)
		}
		p := srv.Stream()
		srv.Cut(io.ErrUnexpectedEOF)
		step(reflector.BackingOff, 0)
		step(reflector.Watching, 0)
		step(reflector.Watching, 0, `WATCH "15"`)
		stopped(t, r)
		if !p.Closed() || !srv.Stream().Closed() {
			t.Error("a stream is still open")
		}
		if err := r.Step(t.Context()); !is(err, "reflector: stopped; make a new one") {
			t.Errorf("after the last step: %v", err)
		}
		if err := r.Run(t.Context()); !is(err, "reflector: stopped; make a new one") {
			t.Errorf("Run after the last step: %v", err)
		}
	})
}

func TestRunEndsAtAnyMoment(t *testing.T) {
	for name, at := range map[string]func(*server){
		"while watching": func(*server) {},
		"while listing": func(s *server) {
			s.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
				<-time.After(time.Hour)
				return object.Page{}, errors.New("too late"), true
			}
		},
		"while backing off": func(s *server) {
			s.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
				return object.Page{}, refused(), true
			}
		},
		"while streaming": func(s *server) {
			s.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { return newStream(), nil, true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				at(srv)
				r := start(t, srv, options{})
				r.halt()
				if r.runErr != nil {
					t.Error(r.runErr)
				}
				if s := r.Status(); s.State != reflector.Stopped || s.Cause == nil {
					t.Errorf("%v", s)
				}
			})
		})
	}
}

func TestRunEndsWhenTheFIFOIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		r.buffer.Close()
		srv.Set("a/x", value("v"))
		synctest.Wait()
		if s := r.in(reflector.Stopped); !errors.Is(s.Cause, delta.ErrClosed) || r.runErr != nil {
			t.Errorf("%v, %v", s, r.runErr)
		}
	})
}

func TestOnlyOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newServer("a/x"), plain(options{}))
		if err := r.Run(t.Context()); !is(err, "reflector: already running") {
			t.Errorf("a second Run: %v", err)
		}
		if err := r.Step(t.Context()); !is(err, "reflector: already running") {
			t.Errorf("a Step beside Run: %v", err)
		}
	})
}

func TestRunReturnsThePanicOfASource(t *testing.T) {
	thrown := errors.New("a bug in the source")
	for name, at := range map[string]func(*server){
		"List": func(s *server) {
			s.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) { panic(thrown) }
		},
		"Watch": func(s *server) {
			s.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) { panic(thrown) }
		},
		"Next": func(s *server) {
			s.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
				return reflector.StreamFuncs[*thing]{NextFunc: func() ([]event, error) { panic(thrown) }}, nil, true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				at(srv)
				r := prepare(t, srv, plain(options{Budget: reflector.NewBudget(1)}))
				err := r.Run(t.Context())
				p := (*object.PanicError)(nil)
				if !errors.As(err, &p) || p.Value != thrown || !bytes.Contains(p.Stack, []byte("run_test.go")) {
					t.Errorf("%v", err)
				}
				if s := r.in(reflector.Stopped); s.Cause != p {
					t.Errorf("%v", s)
				}
			})
		})
	}
}

func TestRelistDecodesEverythingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y")
		r := start(t, srv, plain(options{}))
		srv.Requests()
		cause := errors.New("an object should be held and is not")
		r.Relist(cause)
		simtest.Advance(0)
		r.requests(`LIST "12" NotOlderThan afresh`, `WATCH "12"`)
		r.ended(reflector.Requested, 1)
		if n := srv.Counts().Decoded; n != 4 || !errors.Is(r.lastErr(), cause) {
			t.Errorf("%d decoded, %v", n, r.lastErr())
		}
		r.live()
		// Repeated requests for a relist are throttled.
		for range 100 {
			r.Relist(cause)
			simtest.Advance(100 * time.Millisecond)
		}
		if n := srv.Counts().Lists; n > 8 {
			t.Errorf("%d lists in 10 seconds", n)
		}
		simtest.Advance(time.Minute)
		r.live()
		r.mirrors()
		// A relist requested during a wait follows it.
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(0)
		srv.Requests()
		r.in(reflector.BackingOff)
		r.Relist(cause)
		simtest.Advance(2 * time.Minute)
		r.requests(`LIST "12" NotOlderThan afresh`, `WATCH "12"`)
	})
}

func TestWakeEndsOnlyAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		fails := true
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			return object.Page{}, io.ErrUnexpectedEOF, fails
		}
		r := start(t, srv, plain(options{Backoff: reflector.Backoff{Min: time.Hour}}))
		r.in(reflector.BackingOff)
		r.requests(`LIST "0" limit=500`)
		r.Wake()
		simtest.Advance(time.Minute)
		r.in(reflector.BackingOff) // one call, one wait
		r.requests(`LIST "0" limit=500`)
		srv.Do(func() { fails = false })
		r.Wake()
		simtest.Advance(0)
		r.live()
		r.mirrors()
		r.requests(`LIST "0" limit=500`, `WATCH "11"`)
		r.Wake() // nothing to wake
		simtest.Advance(time.Minute)
		r.requests()
	})
}

func TestSeveralScopesFeedOneBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Must(store.New(things, store.Options[*thing]{}))
		buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{Held: s.Held})
		if err != nil {
			t.Fatal(err)
		}
		apply := func() {
			t.Helper()
			err := buffer.PopBatch(t.Context(), func(b *object.Batch[*thing]) error {
				_, err := s.Apply(b, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var rs []*reflector.Reflector[*thing]
		servers := map[string]*server{"a": newServer("a/x", "a/y"), "b": newServer("b/x", "b/y", "b/z")}
		for _, ns := range []string{"a", "b"} {
			r, err := reflector.New(servers[ns], buffer, plain(options{Scope: object.Scope(ns), Selection: object.Selection{Namespace: ns}}))
			if err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
			for range 3 {
				r.Step(t.Context())
			}
		}
		apply()
		if s.Len() != 5 {
			t.Errorf("%d objects", s.Len())
		}
		// A relist of one scope does not affect the other.
		servers["b"].Delete("b/x")
		servers["b"].Cut(apierrors.NewResourceExpired("gone"))
		for range 4 {
			rs[1].Step(t.Context())
		}
		apply()
		if s.Len() != 4 {
			t.Errorf("%d objects", s.Len())
		}
		if a, b := rs[0].Status().Mark, rs[1].Status().Mark; a != (object.Mark{Scope: "a", Version: "12"}) || b != (object.Mark{Scope: "b", Version: "14"}) {
			t.Errorf("%v, %v", a, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, r := range rs {
			r.Step(ctx)
		}
	})
}

func TestSlowStepsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv := newServer("a/x")
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			<-time.After(11 * time.Second)
			return object.Page{}, nil, false
		}
		sink := &recorder{}
		r, err := reflector.New(srv, sink, plain(options{
			Name:   "pods",
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.Step(t.Context())
		}
		if got := log.String(); !strings.Contains(got, "slow list") || !strings.Contains(got, "reflector=pods") || !strings.Contains(got, "took=11s") {
			t.Errorf("log: %s", got)
		}
		log.Reset()
		sink.then = func() { <-time.After(80 * time.Millisecond) }
		srv.Set("a/x", value("v"))
		r.Step(t.Context())
		if log.Len() > 0 {
			t.Errorf("log: %s", log.String())
		}
		sink.then = func() { <-time.After(120 * time.Millisecond) }
		for range 6 {
			srv.Set("a/x", value("v"))
		}
		synctest.Wait()
		r.Step(t.Context())
		if got := log.String(); !strings.Contains(got, "slow batch") || !strings.Contains(got, "events=6") {
			t.Errorf("log: %s", got)
		}
		log.Reset()
		srv.Cut(io.ErrUnexpectedEOF)
		r.Step(t.Context())
		if got := log.String(); !strings.Contains(got, "request failed") || !strings.Contains(got, "reason=network") {
			t.Errorf("log: %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = r.Step(ctx)
	})
}

func TestNameIsTheCallSite(t *testing.T) {
	buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reflector.New[*thing](newServer(), buffer, options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Name(), "reflector/run_test.go:") || r.Status().Name != r.Name() {
		t.Errorf("name %q", r.Name())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]options{
		"Silence is":         {Silence: -1},
		"Backoff.Max is":     {Backoff: reflector.Backoff{Min: time.Minute, Max: time.Second}},
		"Streaming is 7":     {Streaming: 7},
		`the scope is "a"`:   {Scope: "a"},
		"MinWatchTimeout is": {MinWatchTimeout: -time.Second},
	} {
		if _, err := reflector.New[*thing](newServer(), buffer, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := reflector.New[*thing](nil, buffer, options{}); err == nil {
		t.Error("no source")
	}
	if _, err := reflector.New[*thing](newServer(), nil, options{}); err == nil {
		t.Error("no sink")
	}
	long := options{Backoff: reflector.Backoff{Min: time.Hour}}
	if _, err := reflector.New[*thing](newServer(), buffer, long); err != nil {
		t.Error(err)
	}
}
