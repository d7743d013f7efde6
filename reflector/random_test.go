package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// TestMirrorSurvivesRandomFaults lets random things happen to a server and to what it
// answers. Within minutes of the last fault the store is what the server is, and no
// object ever went back to an older version within an epoch.
func TestMirrorSurvivesRandomFaults(t *testing.T) {
	for seed := range soak.Rounds(50) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { survive(t, uint64(seed)) })
		})
	}
}

func survive(t *testing.T, seed uint64) {
	rnd := &lockedRand{rand: rand.New(rand.NewPCG(seed, 1))}
	srv := newServer("a/a", "a/b", "a/c", "b/d", "b/e")
	srv.canStream = rnd.n(2) == 0
	if rnd.n(2) == 0 {
		srv.ignoreLimitFor = "none"
	}
	var mu sync.Mutex
	trouble := 10 // of a hundred requests so many fail
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return rnd.n(100) < trouble
	}
	srv.onList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
		if !fails() {
			return object.Page{}, nil, false
		}
		sink(itemOf(&thing{key: keyOf("a/half"), uid: "h", version: "1"}))
		return object.Page{Version: "1"}, failures[rnd.n(len(failures))], true
	}
	srv.onWatch = func(_ int, opts object.WatchOptions) (object.Stream[*thing], error, bool) {
		switch {
		case !fails():
			return nil, nil, false
		case rnd.n(3) == 0:
			return newPipe().fail(io.EOF), nil, true // 200 and nothing in it
		case opts.InitialEvents && rnd.n(2) == 0:
			return newPipe(event{Kind: object.Added, Item: itemOf(&thing{key: keyOf("a/half"), uid: "h", version: "1"})}), nil, true
		}
		return nil, failures[rnd.n(len(failures))], true
	}
	r := start(t, srv, options{Rand: rnd.float, PageSize: 2})
	keys := []string{"a/a", "a/b", "a/c", "b/d", "b/e", "b/f"}
	for range 120 {
		disturb(srv, rnd, keys[rnd.n(len(keys))])
		advance(time.Duration(rnd.n(2000)) * time.Millisecond)
		if s := r.Status(); s.Synced && rnd.n(60) == 0 {
			// A new history that passed the old one unseen could not be detected.
			srv.set(func() { srv.version += 100 })
			srv.put("a/a", "far")
			advance(10 * time.Minute)
			srv.restore(5+rnd.n(3), "a/a", "b/e")
			advance(10 * time.Minute)
		}
	}
	mu.Lock()
	trouble = 0
	mu.Unlock()
	advance(10 * time.Minute)
	srv.put("a/a", "last")
	advance(time.Minute)
	r.mirrors()
	// The server never ends a watch at its timeout, so the reflector drops it some time
	// after that; it may just have done so.
	if r.Status().State == reflector.BackingOff {
		advance(10 * time.Second)
	}
	s := r.live()
	if v := string(s.Mark.Version); v != fmt.Sprint(srv.version) {
		t.Errorf("at version %s, the server at %d", v, srv.version)
	}
	if s.Mark.Epoch != object.Epoch(s.Counts.Rewinds) {
		t.Errorf("epoch %d after %d rewinds", s.Mark.Epoch, s.Counts.Rewinds)
	}
	r.neverBack()
}

// disturb does one random thing to the server.
func disturb(srv *server, rnd *lockedRand, key string) {
	srv.mu.Lock()
	there := srv.objects[keyOf(key)] != nil
	var p *pipe
	if n := len(srv.streams); n > 0 {
		p = srv.streams[n-1]
	}
	old := append([]change(nil), srv.history...)
	srv.mu.Unlock()
	switch n := rnd.n(100); {
	case n < 50:
		srv.put(key, fmt.Sprint(n))
	case n < 65 && there:
		srv.remove(key)
	case n < 70:
		srv.cut(failures[rnd.n(len(failures))])
	case n < 75:
		srv.cut(io.EOF)
	case n < 80:
		srv.compact()
	case n < 82:
		srv.compact()
		srv.cut(apierrors.NewResourceExpired("gone"))
	case n < 92 && p != nil && len(old) > 0: // repeats an earlier event
		p.send(old[rnd.n(len(old))].event)
	case p != nil:
		srv.mu.Lock()
		p.send(bookmark(srv.now()), event{})
		srv.mu.Unlock()
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
	tooLarge(9, 8),
}

// neverBack checks that no change but those of a new epoch leads to an older version.
func (r *fixture) neverBack() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.back) > 0 {
		r.t.Errorf("%d objects went back: %v", len(r.back), r.back)
	}
	for _, err := range r.errs {
		if e := (*reflector.Error)(nil); !errors.As(err, &e) || e.Reason == "" {
			r.t.Errorf("%v has no reason", err)
		}
	}
}

// lockedRand is a source of random numbers for several goroutines.
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
