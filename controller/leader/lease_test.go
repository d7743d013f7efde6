package leader

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// noLock takes everything.
type noLock struct{ resourcelock.Interface }

func (noLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
func (noLock) Identity() string                                                { return "a" }
func (noLock) Describe() string                                                { return "shop/web" }

// A process may be stopped, when the monotonic clock goes on; or its machine may sleep,
// when only the wall clock does; and the wall clock may be set back meanwhile.
func TestAPausedProcessFindsItsFenceClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := moment{wall: time.Unix(1e9, 0)}
		l := &lease{Interface: noLock{}, now: func() moment { return now }}
		f := &fence{lease: l, lost: make(chan struct{})}
		renew := func() {
			if err := l.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}); err != nil {
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

func TestTheClocksAreBothRead(t *testing.T) {
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
