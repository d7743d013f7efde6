package informer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestW19_EpochOfANamespaceGoesOnWhenItIsCoveredAgain(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a"}})
		start(t, inf)
		synctest.Wait()
		rewind(srv, 50)
		simtest.Advance(time.Minute)
		set := func(namespaces ...string) {
			t.Helper()
			if err := inf.SetNamespaces(namespaces...); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		mark := func() object.Mark {
			snap := inf.Snapshot()
			defer snap.Release()
			return snap.Mark("a")
		}
		simtest.Want(t, "after a restore", mark(), object.Mark{Scope: "a", Epoch: 1, Version: "50"})
		set()
		set("a")
		srv.Set("a/1")
		synctest.Wait()
		simtest.Want(t, "covered again", mark(), object.Mark{Scope: "a", Epoch: 1, Version: "51"})
		rewind(srv, 40)
		simtest.Advance(time.Minute)
		simtest.Want(t, "after another restore", mark(), object.Mark{Scope: "a", Epoch: 2, Version: "40"})
	})
}

func TestNamespacesMayChangeBeforeAndAfterRun(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1", "b/1")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a", "a"}})
		if err := inf.SetNamespaces("b", "b"); err != nil {
			t.Fatal(err)
		}
		stop := start(t, inf)
		synctest.Wait()
		snap := inf.Snapshot()
		defer snap.Release()
		simtest.Want(t, "keys", slices.Collect(snap.Keys()), []object.Key{{Namespace: "b", Name: "1"}})
		simtest.Want(t, "lists", srv.Counts().Lists, 1)
		stop()
		if err := inf.SetNamespaces("a"); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestNamespacesThatChangeWhileItRuns(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1", "b/1", "c/1")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a", "b"}})
		var d simtest.Recorder
		subscribe(t, inf, d.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		lines := d.Take()
		slices.Sort(lines)
		simtest.Want(t, "received", lines, []string{"add! a/1@101", "add! b/1@102"})
		if err := inf.SetNamespaces("b", "c"); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		lines = d.Take()
		slices.Sort(lines)
		simtest.Want(t, "received", lines, []string{"add c/1@103", "delete? a/1@101"})
		srv.Set("a/1")
		v := srv.Set("c/1").ResourceVersion
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"update c/1@103>105"})
		snap := inf.Snapshot()
		defer snap.Release()
		if got := snap.Mark("c").Version; string(got) != v {
			t.Errorf("c is at %s, want %s", got, v)
		}
		if got := snap.Mark("a").Version; got != "" {
			t.Errorf("a is at %s, but it is not covered", got)
		}
		if err := inf.WaitForKey(t.Context(), object.RawKey("a/1"), "104"); !errors.Is(err, informer.ErrNotCovered) {
			t.Errorf("waiting for what is not covered: %v", err)
		}
		// Out and in again, at once.
		for _, set := range [][]string{{"b"}, {"b", "c"}, {"a", "b", "c"}} {
			if err := inf.SetNamespaces(set...); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		simtest.Want(t, "objects", inf.Len(), 3)
		if err := inf.SetNamespaces(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		simtest.Want(t, "objects", inf.Len(), 0)
		simtest.Want(t, "sources", len(inf.Status().Sources), 0)
	})
}

func TestNamespaceCoveredAgainIsNotSyncedBeforeItIsListed(t *testing.T) {
	for pause := range 2 {
		simtest.Each(t, func(t *testing.T, via simtest.Via) {
			srv := simtest.Pods("a/1")
			inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a"}})
			start(t, inf)
			synctest.Wait()
			srv.Refuse("a", forbidden())
			for _, set := range [][]string{{}, {"a"}} {
				if err := inf.SetNamespaces(set...); err != nil {
					t.Fatal(err)
				}
				if pause > 0 {
					synctest.Wait()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var e *informer.NotSyncedError
			if err := inf.WaitSynced(ctx); !errors.As(err, &e) {
				t.Errorf("its list was refused, but WaitSynced returned %v", err)
			}
			srv.Refuse("a", nil)
			if err := inf.WaitSynced(t.Context()); err != nil || inf.Len() != 1 {
				t.Errorf("%d objects, %v", inf.Len(), err)
			}
		})
	}
}

func TestNamespacesOfNoneAreSyncedAtOnce(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{}})
		var d simtest.Recorder
		sub := subscribe(t, inf, d.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		if !closed(inf.Synced()) || !closed(sub.Synced()) || srv.Counts().Lists != 0 {
			t.Error("there is nothing to wait for")
		}
		if err := inf.SetNamespaces("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add a/1@101"})
		all := newInformer(t, srv.Source(via), podOptions{})
		if err := all.SetNamespaces("a"); err == nil || !strings.Contains(err.Error(), "Options.Namespaces") {
			t.Errorf("error %v", err)
		}
	})
}

func TestWakeMakesAllSourcesTryAgain(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1", "b/1")
		srv.Refuse("a", forbidden())
		srv.Refuse("b", forbidden())
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a", "b"}})
		inf.Wake() // nobody sleeps yet
		start(t, inf)
		simtest.Advance(time.Hour) // the waits are as long as they get
		srv.Refuse("a", nil)
		srv.Refuse("b", nil)
		inf.Wake()
		synctest.Wait()
		simtest.Want(t, "objects", inf.Len(), 2)
	})
}
