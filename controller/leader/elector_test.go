package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestExactlyOneCandidateLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var all []*candidate
		for i := range 4 {
			all = append(all, campaign(t, s, fmt.Sprint("p", i), 0, leader.Options{}))
		}
		for range 100 {
			simtest.Advance(time.Second)
			n := 0
			for _, c := range all {
				if c.leads() {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d lead", n)
			}
		}
	})
}

func TestTheLeaseIsReleasedWhenTheWorkHasEndedAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := campaign(t, s, "a", time.Minute, leader.Options{})
		synctest.Wait()
		b := campaign(t, s, "b", 0, leader.Options{})
		simtest.Advance(time.Second)
		begin := time.Now()
		released := make(chan error)
		go func() { released <- a.stop() }()
		simtest.Advance(59 * time.Second)
		if s.holder() != "a" || !a.leads() || b.leads() {
			t.Errorf("while a drains the lease is %q's", s.holder())
		}
		if err := <-released; err != nil || time.Since(begin) != time.Minute || s.holder() == "a" {
			t.Errorf("%v after %v; the lease is %q's", err, time.Since(begin), s.holder())
		}
		simtest.Advance(5 * time.Second) // much less than the lease duration
		if !b.leads() || b.Status().Leader != "b" || a.Status().Leading {
			t.Errorf("b does not lead: %+v", b.Status())
		}
	})
}

func TestADisconnectedLeaderLosesBeforeAnotherWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := campaign(t, s, "a", 0, leader.Options{})
		synctest.Wait()
		b := campaign(t, s, "b", 0, leader.Options{})
		simtest.Advance(time.Minute)
		if !a.leads() {
			t.Fatal("a does not lead")
		}
		a.link.Set(true, 0)
		for !b.leads() {
			simtest.Advance(100 * time.Millisecond)
			if a.leads() && !time.Now().Before(a.link.Deadline()) {
				t.Fatal("a's fence is open after its deadline")
			}
		}
		if a.leads() {
			t.Fatal("both lead")
		}
		a.link.Set(false, 0)
		b.link.Set(true, 0)
		simtest.Advance(time.Minute)
		if !a.leads() || b.leads() || a.terms != 2 {
			t.Errorf("a is not back: %+v", a.Status())
		}
	})
}

// The elector hangs in a request, so it cannot notice that the lease has expired.
func TestTheFenceClosesEvenIfTheElectorHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := campaign(t, s, "a", 0, leader.Options{})
		simtest.Advance(time.Minute)
		ends := a.link.Deadline()
		a.link.Set(true, time.Hour)
		<-time.After(2 * time.Second) // the next renewal hangs
		ends2 := a.link.Deadline()
		if ends2.After(ends) {
			ends = ends2
		}
		<-time.After(time.Until(ends) - 1)
		if !a.leads() {
			t.Error("the fence closed early")
		}
		<-time.After(1)
		if a.leads() {
			t.Error("the fence is open at the deadline")
		}
		err := a.fence.Check()
		if !errors.Is(err, controller.ErrNotLeading) || !strings.Contains(err.Error(), "default/web was renewed 15s ago and ended after 15s") {
			t.Error(err)
		}
		a.link.Set(false, 0)
	})
}

func TestALeaseStartsBeforeItsRequestIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		link := s.link("a")
		link.Set(false, 4*time.Second)
		c := campaign(t, s, "b", 0, leader.Options{}) // b stops immediately and releases the lease
		synctest.Wait()
		_ = c.stop()
		e, err := leader.New(link.Client(s.MemoryConfig()), web, leader.Options{Identity: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error)
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, f controller.Fence) error {
				// The request was sent four seconds ago.
				if left := e.Status().Left; left != 11*time.Second {
					t.Errorf("%v are left", left)
				}
				return simtest.ErrDown
			})
		}()
		if err := <-done; !errors.Is(err, simtest.ErrDown) {
			t.Error(err)
		}
		if s.holder() != "" {
			t.Error("not released after a failure")
		}
	})
}

func TestRunEndsWhileItDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		campaign(t, s, "a", 0, leader.Options{})
		synctest.Wait()
		b := campaign(t, s, "b", 0, leader.Options{})
		simtest.Advance(time.Minute)
		if err := b.Run(t.Context(), nil); err == nil || err.Error() != "leader: already running" {
			t.Error(err)
		}
		if err := b.stop(); err != nil || s.holder() != "a" || b.terms != 0 {
			t.Error(err, s.holder(), b.terms)
		}
	})
}

func TestOnNewLeaderIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var told []string
		a := campaign(t, s, "a", 0, leader.Options{})
		synctest.Wait()
		b := campaign(t, s, "b", 0, leader.Options{OnNewLeader: func(id string) { told = append(told, id) }})
		simtest.Advance(10 * time.Second)
		_ = a.stop()
		simtest.Advance(10 * time.Second)
		_ = b.stop()
		if !slices.Equal(told, []string{"a", "b"}) {
			t.Error(told)
		}
	})
}

func TestNothingIsPrintedUnlessAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := campaign(t, newServer(t), "a", 0, leader.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		simtest.Advance(time.Second)
		_ = c.stop()
		if !strings.Contains(log.String(), "msg=leading lease=default/web") {
			t.Error(log.String())
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	s := newServer(t)
	client := s.link("a").Client(s.MemoryConfig())
	for _, opts := range []leader.Options{
		{LeaseDuration: 1500 * time.Millisecond, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond},
		{LeaseDuration: 5 * time.Second},
		{RenewDeadline: time.Second},
		{RetryPeriod: -time.Second},
	} {
		if _, err := leader.New(client, web, opts); err == nil {
			t.Errorf("%+v: no error", opts)
		}
	}
	if _, err := leader.New(nil, web, leader.Options{}); err == nil {
		t.Error("no client: no error")
	}
	if _, err := leader.New(client, object.Key{Name: "web"}, leader.Options{}); err == nil {
		t.Error("no namespace: no error")
	}
}

func TestR08_TheDefaultIdentityIsTheHostnameAndAUUID(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	identity := func(given string) string {
		t.Helper()
		e, err := leader.New(s.link("").Client(s.MemoryConfig()), web, leader.Options{Identity: given})
		if err != nil {
			t.Fatal(err)
		}
		return e.Status().Identity
	}
	a, b := identity(""), identity("")
	for _, id := range []string{a, b} {
		if rest, ok := strings.CutPrefix(id, host+"_"); !ok || len(rest) != 36 {
			t.Errorf("identity %q; want %s_ and a UUID", id, host)
		}
	}
	if a == b {
		t.Errorf("two electors have the identity %s", a)
	}
	if id := identity("pod-1"); id != "pod-1" {
		t.Errorf("identity %q; want the given one", id)
	}
}
