package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// TestMirrorSurvivesRandomFaults makes random changes to a server and its responses. Within
// minutes of the last fault the store equals the server, and no object ever went back to an
// older version within an epoch.
func TestMirrorSurvivesRandomFaults(t *testing.T) {
	for seed := range soak.Rounds(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) { survive(t, uint64(seed), via) })
		})
	}
}

func survive(t *testing.T, seed uint64, via simtest.Via) {
	rnd := &lockedRand{rand: rand.New(rand.NewPCG(seed, 1))}
	srv := newServer("a/a", "a/b", "a/c", "b/d", "b/e")
	srv.Streams = rnd.n(2) == 0
	if rnd.n(2) == 0 {
		srv.Unlimited = "none"
	}
	var mu sync.Mutex
	trouble := 10 // percentage of requests that fail
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return rnd.n(100) < trouble
	}
	srv.OnList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
		if !fails() {
			return object.Page{}, nil, false
		}
		sink(simtest.ItemOf(newThing("a/half", "h", "1", "")))
		return object.Page{Version: "1"}, failures[rnd.n(len(failures))], true
	}
	srv.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
		switch {
		case !fails():
			return nil, nil, false
		case rnd.n(3) == 0:
			return newStream().Fail(io.EOF), nil, true // 200 with an empty body
		case opts.InitialEvents && rnd.n(2) == 0:
			return newStream(event{Kind: object.Added, Item: simtest.ItemOf(newThing("a/half", "h", "1", ""))}), nil, true
		}
		return nil, failures[rnd.n(len(failures))], true
	}
	r := start(t, srv, options{Rand: rnd.float, PageSize: 2}, via)
	keys := []string{"a/a", "a/b", "a/c", "b/d", "b/e", "b/f"}
	for range 120 {
		disturb(srv, rnd, keys[rnd.n(len(keys))])
		simtest.Advance(time.Duration(rnd.n(2000)) * time.Millisecond)
		if s := r.Status(); s.Synced && rnd.n(60) == 0 {
			// A restored history that has overtaken the old one could not be detected.
			v, _ := strconv.Atoi(string(srv.Version()))
			srv.SetVersion(v + 100)
			srv.Set("a/a", value("far"))
			simtest.Advance(10 * time.Minute)
			restore(srv, 5+rnd.n(3), "a/a", "b/e")
			simtest.Advance(10 * time.Minute)
		}
	}
	mu.Lock()
	trouble = 0
	mu.Unlock()
	simtest.Advance(10 * time.Minute)
	srv.Cut(io.EOF) // or the last watch may become silent in the minute that follows
	srv.Set("a/a", value("last"))
	simtest.Advance(time.Minute)
	r.mirrors()
	// The server never ends a watch at its timeout, so the reflector drops it some time
	// after that; it may just have done so.
	if r.Status().State == reflector.BackingOff {
		simtest.Advance(10 * time.Second)
	}
	s := r.live()
	if v := srv.Version(); s.Mark.Version != v {
		t.Errorf("at version %s, the server at %s", s.Mark.Version, v)
	}
	if s.Mark.Epoch != object.Epoch(s.Counts.Rewinds) {
		t.Errorf("epoch %d after %d rewinds", s.Mark.Epoch, s.Counts.Rewinds)
	}
	r.neverBack()
}

// disturb makes one random change to the server.
func disturb(srv *server, rnd *lockedRand, key string) {
	there, p, old := srv.Get(key) != nil, srv.Stream(), srv.History()
	switch n := rnd.n(100); {
	case n < 50:
		srv.Set(key, value(fmt.Sprint(n)))
	case n < 65 && there:
		srv.Delete(key)
	case n < 70:
		srv.Cut(failures[rnd.n(len(failures))])
	case n < 75:
		srv.Cut(io.EOF)
	case n < 80:
		srv.Compact()
	case n < 82:
		srv.Compact()
		srv.Cut(apierrors.NewResourceExpired("gone"))
	case n < 92 && p != nil && len(old) > 0: // repeats an earlier event
		p.Send(old[rnd.n(len(old))])
	case p != nil:
		p.Send(bookmark(srv.Version()), event{})
	}
}

var failures = []error{
	io.ErrUnexpectedEOF,
	refused(),
	fmt.Errorf("frame: %w", object.ErrCorrupt),
	&object.WrongKindError{Want: "Thing", Got: "Status"},
	apierrors.NewResourceExpired("gone"),
	apierrors.NewTooManyRequests("slow down", 2),
	apierrors.NewInternalError(errors.New("etcd")),
	status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	status(http.StatusForbidden, metav1.StatusReasonForbidden),
	status(http.StatusNotFound, metav1.StatusReasonNotFound),
	object.ErrIdle,
	simtest.TooLarge(9, 8),
}

// neverBack checks that only a new epoch leads to an older version.
func (r *fixture) neverBack() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if back := r.back.Take(); len(back) > 0 {
		r.t.Errorf("%d objects went back: %v", len(back), back)
	}
	for _, err := range r.errs {
		if e := (*reflector.Error)(nil); !errors.As(err, &e) || e.Reason == "" {
			r.t.Errorf("%v has no reason", err)
		}
	}
}

// lockedRand is a random source that several goroutines may use.
type lockedRand struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (r *lockedRand) n(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

func (r *lockedRand) float() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.Float64()
}
