package informer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

func mustNotMutate(t *testing.T) func(store.Mutation) {
	return func(m store.Mutation) { t.Errorf("%v", m) }
}

func TestH08_TransformRunsOncePerObject(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/gone")
		runs := map[string]int{}
		inf := newInformer(t, srv.Source(via), podOptions{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			runs[p.ResourceVersion]++
			if p.Spec.NodeName == "bad" {
				return nil, errors.New("cannot be transformed")
			}
			p.Annotations = map[string]string{"transformed": "yes"}
			return p, nil
		}})
		var d simtest.Recorder
		h := d.PodHandler()
		del := h.OnDelete
		h.OnDelete = func(p *corev1.Pod, unknown bool) {
			if p.Annotations["transformed"] != "yes" {
				t.Errorf("a deleted object was not transformed: %s, unknown %v", p.Name, unknown)
			}
			del(p, unknown)
		}
		subscribe(t, inf, h, podSub{})
		start(t, inf)
		synctest.Wait()
		srv.Set("shop/b", onNode("bad")) // 103, in quarantine
		srv.Set("shop/a")                // 104
		srv.Delete("shop/a")             // 105
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add! shop/a@101", "add! shop/gone@102", "update shop/a@101>104", "delete shop/a@105"})
		if q := inf.Status().Quarantine; len(q) != 1 || q[0].Key.Name != "b" {
			t.Errorf("quarantine: %+v", q)
		}
		srv.Mute()
		srv.Delete("shop/gone") // 106, unseen
		srv.Expire()
		simtest.Advance(time.Minute)
		simtest.Want(t, "received", d.Take(), []string{"delete? shop/gone@102"})
		srv.Set("shop/b", onNode("good"))
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add shop/b@108"})
		if len(inf.Status().Quarantine) != 0 {
			t.Error("a good version does not end the quarantine")
		}
		for version, n := range runs {
			// What is in quarantine is not held, so a list tries it again.
			if n != 1 && version != "103" {
				t.Errorf("version %s was transformed %d times", version, n)
			}
		}
	})
}

func TestH09_ResyncReplaysToItsSubscribersAndNeverLists(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{Resync: time.Hour})
		var quick, slow, none simtest.Recorder
		sub := subscribe(t, inf, quick.PodHandler(), podSub{Resync: 10 * time.Second})
		subscribe(t, inf, slow.PodHandler(), podSub{})
		subscribe(t, inf, none.PodHandler(), podSub{Resync: -1})
		start(t, inf)
		synctest.Wait()
		quick.Take()
		slow.Take()
		none.Take()
		simtest.Advance(25 * time.Second)
		replay := []string{"update shop/a@101>101", "update shop/b@102>102"}
		simtest.Want(t, "quick", quick.Take(), slices.Concat(replay, replay))
		srv.Set("shop/b")
		simtest.Advance(10 * time.Second)
		simtest.Want(t, "quick", quick.Take(), []string{"update shop/b@102>103", "update shop/a@101>101", "update shop/b@103>103"})
		simtest.Want(t, "slow", slow.Take(), []string{"update shop/b@102>103"})
		simtest.Advance(time.Hour)
		simtest.Want(t, "slow", slow.Take(), []string{"update shop/a@101>101", "update shop/b@103>103"})
		simtest.Want(t, "none", none.Take(), []string{"update shop/b@102>103"})
		simtest.Want(t, "lists", srv.Counts().Lists, 1)
		if n := sub.Status().Resyncs; n < 363 {
			t.Errorf("%d resyncs in an hour", n)
		}
	})
}

func TestH10_WaitForReturnsAtTheVersion(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		errs := make(chan error, 1)
		go func() { errs <- inf.WaitFor(t.Context(), "103") }()
		srv.Set("shop/a")
		synctest.Wait()
		if len(errs) > 0 {
			t.Fatal("returned at 102 for 103")
		}
		srv.Set("shop/a")
		if err := <-errs; err != nil {
			t.Error(err)
		}
		// Somebody else's key at a later version will not do for this one, but a
		// bookmark will.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := inf.WaitForKey(ctx, object.RawKey("shop/a"), "104")
		var e *informer.NotReachedError
		if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "only bookmarks advance") ||
			!strings.Contains(err.Error(), "at 103") {
			t.Errorf("on a quiet resource: %v", err)
		}
		v := srv.Bookmark()
		if err := inf.WaitForKey(t.Context(), object.RawKey("shop/a"), v); err != nil {
			t.Error(err)
		}
	})
}

func TestH10_ReadsWaitForWhatWasWritten(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		stop := start(t, inf)
		synctest.Wait()
		key := object.RawKey("shop/a")
		writes := inf.Writes()
		if writes.Pending(key) {
			t.Error("pending before any write")
		}
		// A write that the watch has not told yet.
		future, _ := inf.Get(key)
		future = future.DeepCopy()
		future.ResourceVersion = "103"
		if err := writes.Wrote(future); err != nil {
			t.Fatal(err)
		}
		if !writes.Pending(key) {
			t.Error("not pending")
		}
		if old, _ := inf.Get(key); old.ResourceVersion != "101" {
			t.Error("the write was written into the mirror")
		}
		got := make(chan *corev1.Pod, 1)
		go func() {
			p, _, err := writes.Get(t.Context(), key)
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		srv.Set("shop/a") // 102
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("read too early")
		}
		srv.Set("shop/a") // 103
		if p := <-got; p.ResourceVersion != "103" {
			t.Errorf("read %s", p.ResourceVersion)
		}
		if writes.Pending(key) || inf.Status().PendingWrites != 0 {
			t.Error("still pending")
		}
		if err := writes.Wrote(&corev1.Pod{}); !errors.Is(err, informer.ErrNoVersion) {
			t.Errorf("an object without identity: %v", err)
		}
		stop()
	})
}

func TestH10_DeletionWaitsForThatUIDToBeDeleted(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		key := object.RawKey("shop/a")
		old, _ := inf.Get(key)
		if err := inf.Writes().Deleted(old); err != nil {
			t.Fatal(err)
		}
		snaps := make(chan store.Snapshot[*corev1.Pod], 1)
		go func() {
			snap, err := inf.Writes().Snapshot(t.Context())
			if err != nil {
				t.Error(err)
			}
			snaps <- snap
		}()
		srv.Set("shop/a") // another's write, before the deletion
		synctest.Wait()
		if len(snaps) > 0 {
			t.Fatal("the object is still there")
		}
		srv.Delete("shop/a")
		srv.Set("shop/a") // again, with another UID
		snap := <-snaps
		defer snap.Release()
		if p, ok := snap.Get(key); ok && p.UID == old.UID {
			t.Error("the deleted object is still there")
		}

		// Created and deleted before the mirror saw anything of it.
		unborn := &corev1.Pod{}
		unborn.Namespace, unborn.Name, unborn.UID, unborn.ResourceVersion = "shop", "new", "u99", "900"
		for _, err := range []error{inf.Writes().Wrote(unborn), inf.Writes().Deleted(unborn)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !inf.Writes().Pending(simtest.KeyOf(unborn)) {
			t.Error("what has not come yet counts as gone")
		}
	})
}

func TestW19_WaitsEndWhenAnEpochBegins(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		key := object.RawKey("shop/a")
		later, _ := inf.Get(key)
		later = later.DeepCopy()
		later.ResourceVersion = "200"
		if err := inf.Writes().Wrote(later); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		go func() { errs <- inf.WaitFor(t.Context(), "200") }()
		go func() { errs <- inf.WaitForKey(t.Context(), key, "200") }()
		go func() { errs <- inf.Writes().Wait(t.Context(), key) }()
		synctest.Wait()
		rewind(srv, 50)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		snap := inf.Snapshot()
		defer snap.Release()
		if m := snap.Mark(object.Everything); m.Epoch != 1 || m.Version != "50" {
			t.Errorf("at %+v, want version 50 of epoch 1", m)
		}
	})
}

func TestL15_RelistOfUnchangedObjectsCallsNoHandler(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{})
		var d simtest.Recorder
		subscribe(t, inf, d.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		d.Take()
		before, _ := inf.Get(object.RawKey("shop/a"))
		srv.Expire()
		simtest.Advance(time.Minute)
		simtest.Want(t, "lists", srv.Counts().Lists, 2)
		simtest.Want(t, "received", d.Take(), nil)
		if after, _ := inf.Get(object.RawKey("shop/a")); after != before {
			t.Error("the object held was replaced by an equal one")
		}
	})
}

func TestCompactFormReportsTheSame(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
		inf := newInformer(t, srv.Source(via), podOptions{Form: packed()})
		var d simtest.Recorder
		subscribe(t, inf, d.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		inf.AddIndex(byNode) // decodes what is there
		srv.Set("shop/a", onNode("n1"))
		srv.Delete("shop/b")
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add! shop/a@101", "add! shop/b@102", "update shop/a@101>103", "delete shop/b@104"})
		snap := inf.Snapshot()
		defer snap.Release()
		simtest.Want(t, "on n1", byNode.Count(snap, "n1"), 1)
	})
}

func TestSourceThatPanicsEndsRun(t *testing.T) {
	src := reflector.SourceFuncs[*corev1.Pod]{
		ListFunc: func(context.Context, object.ListOptions, *object.Intake[*corev1.Pod], func(podItem) error) (object.Page, error) {
			panic("no")
		},
	}
	inf := newInformer(t, src, podOptions{})
	sub := subscribe(t, inf, podHandler{}, podSub{})
	err := inf.Run(t.Context())
	var p *object.PanicError
	if !errors.As(err, &p) || !closed(sub.Done()) {
		t.Errorf("Run: %v", err)
	}
}

func TestMutationIsFound(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		var found []store.Mutation
		inf := newInformer(t, simtest.Pods("shop/a").Source(via), podOptions{OnMutation: func(m store.Mutation) { found = append(found, m) }})
		stop := start(t, inf)
		synctest.Wait()
		pod, _ := inf.Get(object.RawKey("shop/a"))
		pod.Spec.NodeName = "mine"
		stop() // which looks at everything
		if len(found) != 1 || found[0].Path != "Spec.NodeName" {
			t.Errorf("found %v", found)
		}
	})
}

func TestAListThatOmittedObjectsNotHeldIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/a")
		srv.OnList = func(n int, _ object.ListOptions, sink func(podItem) error) (object.Page, error, bool) {
			if n > 1 {
				return object.Page{}, nil, false
			}
			item := simtest.ItemOf(srv.Set("shop/b"))
			item.Object, item.Held = nil, true
			return object.Page{Version: item.Version}, sink(item), true
		}
		inf := newInformer(t, srv, podOptions{})
		start(t, inf)
		simtest.Advance(time.Hour)
		st := inf.Status()
		if st.Refused != 1 || !errors.Is(st.LastRefused, store.ErrNotHeld) || !st.Live() {
			t.Errorf("status: %v, refused %d: %v", st, st.Refused, st.LastRefused)
		}
		simtest.Want(t, "objects", inf.Len(), 2)
	})
}
