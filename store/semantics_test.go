package store_test

import (
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// S08: memory held for old snapshots is bounded by what they can still see, is freed when they
// are released or collected, and is visible.

// setAndForget stores a pod and returns how to see whether it was collected.
func setAndForget(t testing.TB, s *podStore, p *corev1.Pod) (gone func() bool) {
	t.Helper()
	set(t, s, p)
	w := weak.Make(p)
	return func() bool { return w.Value() == nil }
}

func TestS08_RetainedIsShownByRevision(t *testing.T) {
	s := newPodStore(t, nodeIndex())
	apply(t, s, 10, listed(10, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("x"))))
	want(t, "retained without snapshots", s.Stats().Retained, 0)

	report := s.Snapshot()
	backup, copied := s.Snapshot(), report // a copy is the same snapshot
	want(t, "pins of the current revision", s.Stats().Pins, nil)

	set(t, s, pod("a/1", 11, onNode("x")))
	ui := s.Snapshot()
	set(t, s, pod("a/1", 12, onNode("x")), pod("a/2", 13, onNode("x")), pod("a/1", 14, onNode("x")))
	stats := s.Stats()
	want(t, "pins", stats.Pins, []store.PinStats{
		{Revision: report.Revision(), Version: "10", Snapshots: 2, Retained: 1},
		{Revision: ui.Revision(), Version: "10", Snapshots: 1, Retained: 2},
	})
	want(t, "retained", stats.Retained, 3)

	// The first a/1 is for report alone; a/2 is for both and stays.
	ui.Release()
	stats = s.Stats()
	want(t, "retained without ui", stats.Retained, 2)
	want(t, "pins without ui", len(stats.Pins), 1)

	copied.Release()
	want(t, "snapshots without report", s.Stats().Pins[0].Snapshots, 1)
	backup.Release()
	stats = s.Stats()
	want(t, "retained in the end", stats.Retained, 0)
	want(t, "pins in the end", stats.Pins, nil)
}

// However often an object changes, a snapshot keeps the one version it sees.
func TestS08_RetainedIsBoundedByWhatASnapshotSees(t *testing.T) {
	s := newPodStore(t, nodeIndex())
	set(t, s, pod("a/1", 1), pod("a/2", 2))
	snap := s.Snapshot()
	defer snap.Release()
	for i := range 100 {
		set(t, s, pod("a/1", 10+i))
	}
	want(t, "retained for one object", s.Stats().Retained, 1)
	for i := range 100 {
		key := fmt.Sprintf("b/%d", i)
		set(t, s, pod(key, 1))
		s.Delete(object.RawKey(key))
	}
	want(t, "retained for what came and went", s.Stats().Retained, 1)
}

func TestS08_ForgottenSnapshotIsReclaimed(t *testing.T) {
	s := newPodStore(t)
	gone := setAndForget(t, s, pod("a/1", 1))
	func() {
		snap := s.Snapshot()
		set(t, s, pod("a/1", 2))
		want(t, "retained", s.Stats().Retained, 1)
		runtime.KeepAlive(snap)
	}()
	if !collected(func() bool { return s.Stats().Retained == 0 }) {
		t.Fatal("the forgotten snapshot still retains something")
	}
	want(t, "pins", s.Stats().Pins, nil)
	if !collected(gone) {
		t.Error("the object that it saw was not collected")
	}
}

func TestS08_ReleasedSnapshotIsNotReleasedAgainByTheCollector(t *testing.T) {
	s := newPodStore(t)
	set(t, s, pod("a/1", 1))
	other := s.Snapshot()
	defer other.Release()
	func() { s.Snapshot().Release() }()
	for range 20 {
		runtime.GC()
		runtime.Gosched()
	}
	set(t, s, pod("a/1", 2))
	want(t, "retained for the other", s.Stats().Retained, 1)
	want(t, "what the other sees", podTexts(other.All()), []string{"a/1@1"})
}

// Snapshots that are taken, copied, released and forgotten while the writer is at work: in
// the end nothing is left of them.
func TestS08_NothingIsLeftOfSnapshotsTakenWhileWriting(t *testing.T) {
	s := newPodStore(t, nodeIndex())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := range 200 {
				snap := s.Snapshot()
				s.View(func(later podSnapshot) {
					if snap.Revision() > later.Revision() {
						t.Errorf("revision %d after %d", later.Revision(), snap.Revision())
					}
				})
				if i%8 != 0 { // else forgotten
					snap.Release()
				}
			}
		})
	}
	for i := range 1000 {
		set(t, s, pod(fmt.Sprint("a/", i%5), i+1, onNode(fmt.Sprint(i%3))))
		if i%7 == 0 {
			s.Delete(object.RawKey(fmt.Sprint("a/", i%5)))
		}
	}
	readers.Wait()
	if !collected(func() bool { return s.Stats().Retained == 0 && s.Stats().Pins == nil }) {
		t.Errorf("left: %+v", s.Stats())
	}
}

// Stats reclaims too, for a store that is not written to.
func TestS08_StatsReclaimsInAnIdleStore(t *testing.T) {
	s := newPodStore(t)
	gone := setAndForget(t, s, pod("a/1", 1))
	func() {
		snap := s.Snapshot()
		set(t, s, pod("a/1", 2))
		runtime.KeepAlive(snap)
	}()
	if !collected(func() bool { s.Stats(); return gone() }) {
		t.Error("the object was not collected")
	}
}

func TestS08_ReleaseFreesWhatOnlyThatSnapshotSaw(t *testing.T) {
	s := newPodStore(t, nodeIndex())
	updated := setAndForget(t, s, pod("a/1", 1))
	deleted := setAndForget(t, s, pod("a/2", 2))
	snap := s.Snapshot()
	unseen := setAndForget(t, s, pod("a/1", 3))
	set(t, s, pod("a/1", 4))
	s.Delete(object.RawKey("a/2"))

	if !collected(unseen) {
		t.Error("a version that no snapshot saw was not collected")
	}
	if updated() || deleted() {
		t.Error("an object that a snapshot sees was collected")
	}
	want(t, "what the snapshot sees", podTexts(snap.All()), []string{"a/1@1", "a/2@2"})
	snap.Release()
	if !collected(updated) || !collected(deleted) {
		t.Error("an object was not collected after the release")
	}
	runtime.KeepAlive(s)
}

func TestS08_WithoutSnapshotsNothingIsRetained(t *testing.T) {
	s := newPodStore(t, nodeIndex())
	first := setAndForget(t, s, pod("a/1", 1))
	second := setAndForget(t, s, pod("a/1", 2))
	third := setAndForget(t, s, pod("a/2", 3))
	s.Delete(object.RawKey("a/2"))
	if !collected(first) || !collected(third) {
		t.Error("an object that was replaced or deleted was not collected")
	}
	if second() {
		t.Error("an object that is held was collected")
	}
	runtime.KeepAlive(s)
}

// A change keeps its objects for a slow handler, and nothing that no snapshot of the time
// could see.
func TestS08_ChangeKeepsOnlyItsOwnObjects(t *testing.T) {
	s := newPodStore(t)
	first := setAndForget(t, s, pod("a/1", 1))
	set(t, s, pod("a/1", 2))
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{event(object.Updated, pod("a/1", 3))}})
	want(t, "retained", s.Stats().Retained, 0)
	if !collected(first) {
		t.Error("the change from 2 to 3 keeps version 1")
	}
	want(t, "the change", changeTexts(changes), []string{"Updated a/1@2>3"})
	runtime.KeepAlive(s)
}

// Keys, index values and their bookkeeping go with the objects: a store through which ever
// new names pass stays as small as what it holds.
func TestS08_DeletedKeysAndTheirMemoryGo(t *testing.T) {
	soak.Measures(t)
	labels := store.NewLabelIndex(podMeta.Labels)
	s := newPodStore(t, nodeIndex(), labels, store.Ordered(store.NewIndex("name", func(p *corev1.Pod) string { return p.Name })))
	next := 0
	churn := func(n int) {
		for range n {
			next++
			key := fmt.Sprintf("ns-%d/a-rather-long-name-of-a-pod-%d", next, next)
			set(t, s, pod(key, next, onNode(key), withLabels("app", fmt.Sprint(next))))
			s.Delete(object.RawKey(key))
		}
	}
	churn(2000)
	before := heap()
	churn(20000)
	after := heap()
	if grown := int64(after) - int64(before); grown > 1<<20 {
		t.Errorf("%d KiB more after 20,000 names came and went", grown>>10)
	}
	stats := s.Stats()
	want(t, "objects", stats.Objects, 0)
	for _, x := range stats.Indexes {
		want(t, "values of "+x.Name, x.Values, 0)
	}
	runtime.KeepAlive(s)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A store that was large once does not stay so.
func TestS08_MemoryGoesWhenNearlyAllObjectsGo(t *testing.T) {
	soak.Measures(t)
	before := heap()
	s := newPodStore(t, nodeIndex())
	apply(t, s, 30000, listed(30000, manyPods(20000)...))
	full := heap() - before
	apply(t, s, 30001, listed(30001, manyPods(10)...))
	left := int64(heap()) - int64(before)
	if left > int64(full)/10 {
		t.Errorf("%d KiB of %d KiB left for 10 of 20,000 objects", left>>10, full>>10)
	}
	runtime.KeepAlive(s)
}

func TestS08_UseAfterReleasePanics(t *testing.T) {
	node, labels := nodeIndex(), store.NewLabelIndex(podMeta.Labels)
	s := newPodStore(t, node, labels)
	set(t, s, pod("a/1", 1))
	snap, live := s.Snapshot(), s.Snapshot()
	defer live.Release()
	copied := snap
	snap.Release()
	snap.Release() // does nothing, also through a copy
	copied.Release()
	want(t, "pins", s.Stats().Retained, 0)

	for name, use := range map[string]func(){
		"Get":        func() { copied.Get(object.RawKey("a/1")) },
		"All":        func() { podTexts(copied.All()) },
		"Keys":       func() { drain(copied.Keys()) },
		"Sorted":     func() { podTexts(copied.Sorted()) },
		"Namespace":  func() { podTexts(copied.Namespace("a")) },
		"After":      func() { podTexts(copied.After(object.Key{}, 1)) },
		"Diff from":  func() { drain(store.Diff(copied, live)) },
		"Diff to":    func() { drain(store.Diff(live, copied)) },
		"index Get":  func() { podTexts(node.Get(copied, "")) },
		"Count":      func() { node.Count(copied, "") },
		"Values":     func() { drain(node.Keys(copied)) },
		"Like":       func() { podTexts(node.Like(copied, pod("a/1", 1))) },
		"Select":     func() { podTexts(labels.Select(copied, mustParse("app"))) },
		"Select all": func() { podTexts(labels.Select(copied, mustParse(""))) },
	} {
		t.Run(name, func(t *testing.T) {
			wantPanic(t, "store: use of a snapshot after its release", use)
		})
	}
}

func drain[V any](seq iter.Seq[V]) {
	for range seq {
	}
}

// What is pinned in the middle of an iteration stays, even if nothing else holds the
// snapshot.
func TestS08_IterationKeepsItsSnapshot(t *testing.T) {
	s := newPodStore(t)
	set(t, s, pod("a/1", 1), pod("a/2", 2), pod("a/3", 3))
	var got []string
	for p := range s.Snapshot().All() {
		if len(got) == 0 {
			set(t, s, pod("a/2", 12))
			s.Delete(object.RawKey("a/3"))
			for range 3 {
				runtime.GC()
				runtime.Gosched()
			}
			s.Stats()
		}
		got = append(got, p.ResourceVersion)
	}
	want(t, "versions", got, []string{"1", "2", "3"})
	if !collected(func() bool { return s.Stats().Retained == 0 }) {
		t.Error("the snapshot is still held after the iteration")
	}
}

// A value that many objects had gives its memory back; what is left is found as before, and
// can still be moved and deleted, also under a snapshot that sees them all.
func TestS08_ValueThatShrinksStaysRight(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		node, image := nodeIndex(), imageIndex()
		s := newPodStore(t, node, image)
		const n = 400
		at := func(i, version int, where string) *corev1.Pod {
			return pod(fmt.Sprintf("a/%03d", i), version, onNode(where), running(where, "same"))
		}
		for i := range n {
			set(t, s, at(i, i+1, "x"))
		}
		older := podSnapshot{}
		if pinned {
			older = now(t, s)
		}
		agree := func(what string) {
			t.Helper()
			snap := s.Snapshot()
			defer snap.Release()
			for _, where := range []string{"x", "y", "same"} {
				var all []string
				for p := range snap.Sorted() {
					if p.Spec.NodeName == where || where == "same" {
						all = append(all, fmt.Sprintf("a/%s@%s", p.Name, p.ResourceVersion))
					}
				}
				if where != "same" {
					want(t, what+": node "+where, sorted(node.Get(snap, where)), all)
				}
				want(t, what+": image "+where, sorted(image.Get(snap, where)), all)
			}
			if pinned {
				want(t, what+": older", []int{node.Count(older, "x"), image.Count(older, "x")}, []int{n, n})
			}
		}
		for i := range n {
			if i%10 != 3 {
				s.Delete(object.RawKey(fmt.Sprintf("a/%03d", i)))
			}
		}
		agree("after deletions")
		for i := 3; i < n; i += 20 {
			set(t, s, at(i, n+i, "y"))
		}
		agree("after moves")
		for i := range 100 {
			set(t, s, at(i, 2*n+i, "x"))
		}
		agree("after additions")
		apply(t, s, 5000, listed(5000))
		agree("when empty")
	}
}
