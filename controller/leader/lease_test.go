package leader

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/controller"
	_ "github.com/tarnproject/tarn/internal/soak" // -soak scales rapid's checks
	"github.com/tarnproject/tarn/object"
)

// noLock accepts every write.
type noLock struct{ resourcelock.Interface }

func (noLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
func (noLock) Identity() string                                                { return "a" }
func (noLock) Describe() string                                                { return "shop/web" }

// While a process is paused the monotonic clock advances; while the machine sleeps only the wall
// clock does; and the wall clock may be set back.
func TestAPausedProcessFindsItsFenceClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := moment{wall: time.Unix(1e9, 0)}
		l := &lease{Interface: noLock{}, now: func() moment { return now }}
		f := &fence{lease: l, lost: make(chan struct{})}
		seconds := int64(1e9)
		renew := func() {
			seconds++ // each renewal is a new record to other processes
			if err := l.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15, RenewTime: metav1.Unix(seconds, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		if f.Check() == nil {
			t.Fatal("open without a lease")
		}
		renew()
		var mono, wall time.Duration // since the renewal
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			m := time.Duration(rapid.IntRange(0, 8).Draw(t, "monotonic")) * time.Second
			w := time.Duration(rapid.IntRange(-8, 8).Draw(t, "wall")) * time.Second
			mono, wall = mono+m, wall+w
			now.mono += m
			now.wall = now.wall.Add(w)
			open := mono < 15*time.Second && wall < 15*time.Second
			if err := f.Check(); (err == nil) != open || err != nil && !errors.Is(err, controller.ErrNotLeading) {
				t.Fatalf("after %v by one clock and %v by the other: %v", mono, wall, err)
			}
			if (l.left() > 0) != open {
				t.Fatalf("%v are left", l.left())
			}
			if rapid.Bool().Draw(t, "renew") {
				renew()
				mono, wall = 0, 0
			}
		}
		renew()
		f.close()
		if f.Check() == nil {
			t.Fatal("a lost fence opened again")
		}
	})
}

// Records have whole seconds: other processes do not see a second renewal within one second, so
// the lease must end when the first one says.
func TestRenewalsWithinOneSecondCountFromTheFirst(t *testing.T) {
	origin := time.Unix(1e9, 0)
	now := moment{wall: origin}
	failing := false
	l := &lease{Interface: sometimes{noLock{}, &failing}, now: func() moment { return now }}
	at := func(d time.Duration) { now = moment{mono: d, wall: origin.Add(d)} }
	renew := func(holder string) {
		_ = l.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now.wall)})
	}
	left := func(want time.Duration) {
		t.Helper()
		if got := l.left(); got != want {
			t.Errorf("%v are left; want %v", got, want)
		}
	}
	at(100 * time.Millisecond)
	renew("a")
	at(900 * time.Millisecond)
	renew("a")
	left(14200 * time.Millisecond)
	at(1100 * time.Millisecond)
	renew("a")
	left(15 * time.Second)
	// A failed request may have reached the server.
	at(2 * time.Second)
	failing = true
	renew("a")
	at(2500 * time.Millisecond)
	failing = false
	renew("a")
	left(14500 * time.Millisecond)
	// A lease that was released and acquired again is a new record to every process.
	renew("")
	left(0)
	at(2700 * time.Millisecond)
	renew("a")
	left(15 * time.Second)
}

// A lease that another process held in between is acquired again, as a new term.
func TestATermEndsWhenAnotherHasLed(t *testing.T) {
	now := moment{wall: time.Unix(1e9, 0)}
	l := &lease{Interface: noLock{}, now: func() moment { return now }}
	write := func(holder string, transitions int) error {
		return l.Update(context.Background(), resourcelock.LeaderElectionRecord{
			HolderIdentity: holder, LeaseDurationSeconds: 15, LeaderTransitions: transitions, RenewTime: metav1.NewTime(now.wall),
		})
	}
	for range 2 { // acquired, then renewed
		if err := write("a", 3); err != nil || l.check() != nil {
			t.Fatal(err, l.check())
		}
	}
	now = moment{mono: 20 * time.Second, wall: now.wall.Add(20 * time.Second)}
	if err := write("a", 5); !errors.Is(err, controller.ErrNotLeading) || l.check() == nil {
		t.Errorf("renewed after another's term: %v", err)
	}
	l.won.Store(false) // the next campaign
	if err := write("a", 5); err != nil || l.check() != nil {
		t.Error(err, l.check())
	}
}

// sometimes fails.
type sometimes struct {
	noLock
	failing *bool
}

func (l sometimes) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	if *l.failing {
		return errors.New("no answer")
	}
	return nil
}

func TestBothClocksAreRead(t *testing.T) {
	c := clock{time.Now()}
	a := c.now()
	if a.mono < 0 || a.wall.String() != a.wall.Round(0).String() {
		t.Errorf("%+v", a)
	}
	if d := c.now().after(a); d < 0 {
		t.Error(d)
	}
}

func TestNewLeaseIsClientGosLeaseLock(t *testing.T) {
	l := NewLease(nil, object.Key{Namespace: "shop", Name: "web"}, "me")
	if l.Identity() != "me" || l.Describe() != "shop/web" {
		t.Error(l.Identity(), l.Describe())
	}
}

func TestR08_TheDefaultIdentityIsTheHostnameAndAUUID(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lease := object.Key{Namespace: "shop", Name: "web"}
	a, b := NewLease(nil, lease, ""), NewLease(nil, lease, "")
	for _, id := range []string{a.Identity(), b.Identity()} {
		if rest, ok := strings.CutPrefix(id, host+"_"); !ok || len(rest) != 36 {
			t.Errorf("identity %q; want %s_ and a UUID", id, host)
		}
	}
	if a.Identity() == b.Identity() {
		t.Errorf("two electors have the identity %s", a.Identity())
	}
	if id := NewLease(nil, lease, "pod-1").Identity(); id != "pod-1" {
		t.Errorf("identity %q; want the given one", id)
	}
}
