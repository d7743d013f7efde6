package leader

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/lease"
	_ "github.com/tarnproject/tarn/internal/soak" // -soak scales rapid's checks
)

func newTenure(now func() lease.Moment) *tenure {
	return &tenure{lease: "shop/web", identity: "a", now: now}
}

// While a process is paused the monotonic clock advances; while the machine sleeps only the wall
// clock does; and the wall clock may be set back.
func TestAPausedProcessFindsItsFenceClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := lease.Moment{Wall: time.Unix(1e9, 0)}
		e := &Elector{tenure: tenure{lease: "shop/web", identity: "a", now: func() lease.Moment { return now }}}
		l, f := &e.tenure, newFence(e)
		seconds := int64(1e9)
		renew := func() {
			seconds++ // each renewal is a new record to other processes
			r := record{holder: "a", seconds: 15, renewed: seconds * 1e6}
			l.sending(r)
			l.stored(r)
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
			now.Mono += m
			now.Wall = now.Wall.Add(w)
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
		f.Close()
		if f.Check() == nil {
			t.Fatal("a lost fence opened again")
		}
	})
}

// Records have whole seconds: other processes do not see a second renewal within one second, so
// the lease must end when the first one says.
func TestRenewalsWithinOneSecondCountFromTheFirst(t *testing.T) {
	origin := time.Unix(1e9, 0)
	now := lease.Moment{Wall: origin}
	failing := false
	l := newTenure(func() lease.Moment { return now })
	at := func(d time.Duration) { now = lease.Moment{Mono: d, Wall: origin.Add(d)} }
	renew := func(holder string) {
		r := record{holder: holder, seconds: 15, renewed: now.Wall.UnixMicro()}
		l.sending(r)
		if !failing {
			l.stored(r)
		}
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

// Fields that the election does not use survive, and nothing is lost on the way.
func TestARecordIsWrittenToALeaseAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record{
			holder: rapid.String().Draw(t, "holder"), seconds: rapid.Int32().Draw(t, "seconds"), transitions: rapid.Int32().Draw(t, "transitions"),
			acquired: rapid.Int64Range(0, 4e15).Draw(t, "acquired"), renewed: rapid.Int64Range(0, 4e15).Draw(t, "renewed"),
		}
		strategy := coordinationv1.OldestEmulationVersion
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: coordinationv1.LeaseSpec{Strategy: &strategy}}
		r.write(lease)
		if got := recordOf(lease); got != r {
			t.Fatalf("%+v; want %+v", got, r)
		}
		if lease.Spec.Strategy != &strategy || lease.Labels["a"] != "b" {
			t.Fatalf("%+v", lease)
		}
	})
	if got := recordOf(&coordinationv1.Lease{}); got != (record{}) {
		t.Errorf("an empty lease: %+v", got)
	}
}
