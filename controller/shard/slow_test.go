package shard_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/shard"
)

// slowHandler takes a minute for each record.
type slowHandler struct{ slog.Handler }

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-time.After(time.Minute)
	return nil
}

func TestASlowLogHandlerDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		opts := shard.Options{Logger: slog.New(slowHandler{slog.DiscardHandler})}
		a := join(t, server, l, "a", 0, opts)
		<-time.After(30 * time.Second)
		l.expect(shard.Slots)
		join(t, server, l, "b", 0, opts)
		for range 60 {
			<-time.After(time.Second)
			if s := a.Status(); !s.Active {
				t.Fatalf("the status is %+v", s)
			}
		}
		l.expect(shard.Slots)
		if n := len(a.Status().Slots); n == 0 || n == shard.Slots {
			t.Errorf("a works on %d slots", n)
		}
	})
}

// Requests that take up to a third of a lease duration stop no member, and the cause is visible.
func TestP09_SlowWritesOfLeasesStopNoMember(t *testing.T) {
	for _, slow := range []time.Duration{2500 * time.Millisecond, 4500 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
				a := join(t, server, l, "a", 0, shard.Options{})
				_, err := server.Inject(apiserver.Fault{Kind: apiserver.Latency, Resource: "leases.coordination.k8s.io", Verb: "write", Wait: slow, For: 6 * time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				l.expect(shard.Slots)
				for range 290 {
					<-time.After(time.Second)
					if s := a.Status(); !s.Active || s.Cause == nil || !strings.Contains(s.Cause.Error(), "took") {
						t.Fatalf("the status is %+v", s)
					}
				}
				l.expect(shard.Slots)
				<-time.After(30 * time.Second)
				if s := a.Status(); s.Cause != nil {
					t.Errorf("with fast requests: %v", s.Cause)
				}
			})
		})
	}
}

func TestReadySaysWhyAMemberDoesNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		a := join(t, server, l, "a", 0, shard.Options{})
		<-time.After(time.Second)
		if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Verb: "update", Resource: "leases.coordination.k8s.io"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "could not be") || strings.Contains(err.Error(), "\n") {
			t.Errorf("while leases must not be written: %v", err)
		}
		if s := a.Status(); s.Cause == nil {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A reconcile that does not end keeps its own slot from a member that joins, and no other. The slot counts as idle.
func TestWorkThatDoesNotEndKeepsItsSlotOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		free := make(chan struct{})
		l.hung = map[string]chan struct{}{}
		for i := 0; i < shard.Slots; i += 16 { // some of these are to be moved
			l.hung[shard.Slot(i).String()] = free
		}
		a := join(t, server, l, "a", 0, shard.Options{})
		<-time.After(30 * time.Second)
		b := join(t, server, l, "b", 0, shard.Options{})
		<-time.After(time.Minute)
		s := a.Status()
		if n := len(s.Stuck); n == 0 || s.Idle != n || b.Status().Idle != n || len(s.Slots)+len(b.Status().Slots) != shard.Slots-n {
			t.Errorf("%d slots are stuck, and the statuses are\n%+v\n%+v", n, s, b.Status())
		}
		close(free)
		<-time.After(time.Minute)
		if s := a.Status(); s.Idle != 0 || len(s.Stuck) > 0 {
			t.Errorf("after the work has ended: %+v", s)
		}
		l.expect(shard.Slots)
	})
}
