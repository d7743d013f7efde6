package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// seen is all that a snapshot shows, as text.
func seen(snap podSnapshot, node *store.Index[*corev1.Pod, string]) []string {
	out := []string{fmt.Sprintf("%d %q %d", snap.Len(), snap.Version(), snap.Revision())}
	out = append(out, podTexts(snap.Sorted())...)
	out = append(out, sorted(snap.All())...)
	var all []*corev1.Pod
	for chunk := range snap.Chunks() {
		all = snap.Chunk(chunk, all)
	}
	out = append(out, sorted(slices.Values(all))...)
	for _, k := range slices.SortedFunc(snap.Keys(), object.Key.Compare) {
		p, ok := snap.Get(k)
		out = append(out, fmt.Sprint(k, ok, p.ResourceVersion))
	}
	for _, ns := range []string{"", "a", "b", "c"} {
		out = append(out, ns+":")
		out = append(out, sorted(snap.Namespace(ns))...)
	}
	for _, n := range slices.Sorted(node.Keys(snap)) {
		out = append(out, fmt.Sprint(n, node.Count(snap, n)))
		out = append(out, sorted(node.Get(snap, n))...)
	}
	return out
}

func TestS01_SnapshotNeverChanges(t *testing.T) {
	node := nodeIndex()
	s := newPodStore(t, node)
	var snaps []podSnapshot
	var before [][]string
	remember := func() {
		snaps = append(snaps, s.Snapshot())
		before = append(before, seen(snaps[len(snaps)-1], node))
	}
	remember()
	apply(t, s, 10, listed(10, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("y")), pod("b/1", 3, onNode("x")), pod("node", 4)))
	remember()
	apply(t, s, 13, event(object.Updated, pod("a/1", 11, onNode("y"))), event(object.Deleted, pod("a/2", 12)),
		event(object.Added, pod("c/1", 13, onNode("z"))))
	remember()
	set(t, s, pod("a/2", 14, onNode("z")))
	remember()
	s.Delete(object.RawKey("node"))
	remember()
	apply(t, s, 20, listed(20))
	remember()
	apply(t, s, 30, listed(30, manyPods(500)...))

	for i, snap := range snaps {
		want(t, fmt.Sprintf("snapshot %d", i), seen(snap, node), before[i])
		snap.Release()
	}
	want(t, "versions", []object.Version{snaps[1].Version(), snaps[2].Version(), snaps[5].Version()},
		[]object.Version{"10", "13", "20"})
	want(t, "retained afterwards", s.Stats().Retained, 0)
}

func TestS01_SnapshotCostsTheSameForAnyNumberOfObjects(t *testing.T) {
	soak.Measures(t)
	costs := map[int][2]float64{}
	for _, n := range []int{1, 5000} {
		s := newPodStore(t, nodeIndex())
		apply(t, s, 10000, listed(10000, manyPods(n)...))
		costs[n] = [2]float64{
			testing.AllocsPerRun(100, func() { s.Snapshot().Release() }),
			testing.AllocsPerRun(100, func() { s.View(func(podSnapshot) {}) }),
		}
	}
	want(t, "allocations of Snapshot and View", costs[5000], costs[1])
	want(t, "allocations of View", costs[1][1], 0)
}

// A snapshot of View is released once, when View ends: by return, by a panic, or by Goexit.
func TestAViewCannotBeLeakedNorReleasedTwice(t *testing.T) {
	s := newPodStore(t)
	set(t, s, pod("a/1", 1))
	ways := map[string]func(podSnapshot){
		"return": func(podSnapshot) {},
		"panic":  func(podSnapshot) { panic("a reader fails") },
		"exit":   func(podSnapshot) { runtime.Goexit() },
	}
	for name, end := range ways {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			s.View(func(snap podSnapshot) {
				snap.Release()
				set(t, s, pod("a/1", 2))
				want(t, name+": retained", s.Stats().Retained, 1)
				end(snap)
			})
		}()
		<-done
		want(t, name+": retained afterwards", s.Stats().Retained, 0)
	}
}

func TestS01_ZeroSnapshotIsEmpty(t *testing.T) {
	node, labels := nodeIndex(), store.NewLabelIndex(podMeta.Labels)
	var none podSnapshot
	want(t, "what it shows", seen(none, node), []string{"0 \"\" 0", ":", "a:", "b:", "c:"})
	want(t, "After", podTexts(none.After(object.Key{}, 0)), nil)
	if _, ok := none.Get(object.RawKey("a/1")); ok {
		t.Error("the zero snapshot has an object")
	}
	want(t, "Count", labels.Count(none, store.Label{}), 0)
	want(t, "Like", sorted(node.Like(none, pod("a/1", 1))), nil)
	none.Release()
}

func TestS01_PagesHaveNoGapsAndNoRepeatsWhileTheStoreChanges(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, manyPods(50)...))
	snap := s.Snapshot()
	defer snap.Release()
	all := podTexts(snap.Sorted())
	for _, limit := range []int{1, 7, 50, 51, 0, -1} {
		var paged []string
		var last object.Key
		for {
			page := slices.Collect(snap.After(last, limit))
			if len(page) == 0 {
				break
			}
			if limit > 0 && len(page) > limit {
				t.Fatalf("page of %d for a limit of %d", len(page), limit)
			}
			paged = append(paged, podTexts(slices.Values(page))...)
			p := page[len(page)-1]
			last = object.Key{Namespace: p.Namespace, Name: p.Name}
			s.Delete(last)
			set(t, s, pod(fmt.Sprintf("ns-3/new-%d-%d", limit, len(paged)), 1))
		}
		want(t, fmt.Sprintf("pages of %d", limit), paged, all)
	}
	want(t, "after a key that is not there", len(slices.Collect(snap.After(object.Key{Namespace: "ns-3", Name: "a"}, 0))),
		len(slices.Collect(snap.After(object.Key{Namespace: "ns-2", Name: "zzz"}, 0))))
}

func TestS01_NamespaceIsExactlyThat(t *testing.T) {
	s := newPodStore(t)
	set(t, s, pod("b/2", 1), pod("b/1", 1), pod("a/9", 1), pod("b-c/1", 1), pod("node", 1), pod("ba/1", 1))
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "b", sorted(snap.Namespace("b")), []string{"b/1@1", "b/2@1"})
	want(t, "cluster-scoped", podTexts(snap.Namespace("")), []string{"node@1"})
	want(t, "none", podTexts(snap.Namespace("c")), nil)
	want(t, "all, in order", podTexts(snap.Sorted()), []string{"node@1", "a/9@1", "b/1@1", "b/2@1", "b-c/1@1", "ba/1@1"})
}

func TestS01_IterationsStopWhenAsked(t *testing.T) {
	node := store.Ordered(nodeIndex())
	s := newPodStore(t, node)
	apply(t, s, 100, listed(100, manyPods(100)...))
	snap := s.Snapshot()
	defer snap.Release()
	visits := 0
	for range snap.All() {
		visits++
		break
	}
	for range snap.Namespace("ns-1") {
		visits++
		break
	}
	for range snap.After(object.Key{}, 10) {
		visits++
		break
	}
	for range s.Keys() {
		visits++
		break
	}
	for range node.Get(snap, "node-1") {
		visits++
		break
	}
	for range node.Keys(snap) {
		visits++
		break
	}
	for range node.Like(snap, pod("x/y", 1, onNode("node-1"))) {
		visits++
		break
	}
	for range store.Diff(podSnapshot{}, snap) {
		visits++
		break
	}
	for range snap.Marks() {
		visits++
		break
	}
	want(t, "visits", visits, 9)
}

func TestS02_ObjectsAndIndexesChangeTogether(t *testing.T) {
	node, g := nodeIndex(), newGate()
	s := newPodStore(t, node, g)
	apply(t, s, 10, listed(10, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("x"))))
	g.during(func() {
		apply(t, s, 13, event(object.Updated, pod("a/1", 11, onNode("y"))), event(object.Deleted, pod("a/2", 12)),
			event(object.Added, pod("a/3", 13, onNode("y"))))
	}, func() {
		snap := s.Snapshot()
		defer snap.Release()
		want(t, "objects in the middle", podTexts(snap.All()), []string{"a/1@1", "a/2@2"})
		want(t, "x in the middle", sorted(node.Get(snap, "x")), []string{"a/1@1", "a/2@2"})
		want(t, "y in the middle", sorted(node.Get(snap, "y")), nil)
		want(t, "values in the middle", slices.Collect(node.Keys(snap)), []string{"x"})
	})
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "x after", sorted(node.Get(snap, "x")), nil)
	want(t, "y after", sorted(node.Get(snap, "y")), []string{"a/1@11", "a/3@13"})
}

// Every commit has all pods on one node; a reader must never see two.
func TestS02_ReadersSeeWholeTransactions(t *testing.T) {
	node := nodeIndex()
	s := newPodStore(t, node)
	move := func(version int) podDelta {
		pods := make([]*corev1.Pod, 20)
		for i := range pods {
			pods[i] = pod(fmt.Sprintf("a/%d", i), version, onNode(fmt.Sprint("node-", version%3)))
		}
		return listed(version, pods...)
	}
	apply(t, s, 1, move(1))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-stop:
					done = true // once more, for the last state
				default:
				}
				snap := s.Snapshot()
				versions := map[string]int{}
				for p := range snap.All() {
					versions[p.ResourceVersion]++
				}
				nodes := map[string]int{}
				for n := range node.Keys(snap) {
					nodes[n] = node.Count(snap, n)
				}
				v, err := strconv.Atoi(string(snap.Version()))
				if err != nil || len(versions) != 1 || versions[string(snap.Version())] != 20 ||
					len(nodes) != 1 || nodes[fmt.Sprint("node-", v%3)] != 20 {
					t.Errorf("at %s: versions %v, nodes %v", snap.Version(), versions, nodes)
				}
				snap.Release()
			}
		})
	}
	for version := 2; version < soak.Rounds(400); version++ {
		apply(t, s, version, move(version))
	}
	close(stop)
	readers.Wait()
}

func TestS03_ReadersDoNotWaitForTheWriter(t *testing.T) {
	node, g := nodeIndex(), newGate()
	s := newPodStore(t, node, g)
	apply(t, s, 10, listed(10, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("x"))))
	older := s.Snapshot()
	set(t, s, pod("a/1", 11, onNode("y")))

	// The writer waits inside its transaction until all of these have returned.
	g.during(func() { set(t, s, pod("a/1", 12, onNode("z"))) }, func() {
		want(t, "Get", get(t, s, "a/1").ResourceVersion, "11")
		want(t, "Len", s.Len(), 2)
		want(t, "Keys", len(slices.Collect(s.Keys())), 2)
		want(t, "Held", s.Held(object.RawKey("a/1"), "a/1", "11"), true)
		snap := s.Snapshot()
		want(t, "All", podTexts(snap.All()), []string{"a/1@11", "a/2@2"})
		want(t, "Get of a snapshot", podTexts(older.All()), []string{"a/1@1", "a/2@2"})
		want(t, "index", sorted(node.Get(snap, "y")), []string{"a/1@11"})
		want(t, "older index", sorted(node.Get(older, "x")), []string{"a/1@1", "a/2@2"})
		want(t, "Diff", len(slices.Collect(store.Diff(older, snap))), 1)
		s.View(func(podSnapshot) {})
		snap.Release()
		older.Release()
	})
	want(t, "after", get(t, s, "a/1").ResourceVersion, "12")
	want(t, "retained", s.Stats().Retained, 0)
}

func TestS03_WriterDoesNotWaitForReaders(t *testing.T) {
	node := nodeIndex()
	s := newPodStore(t, node)
	apply(t, s, 100, listed(100, manyPods(100)...))
	snap := s.Snapshot()
	defer snap.Release()
	all := podTexts(snap.All())

	// Writes from inside an iteration: a lock would never be given back.
	i := 0
	var visited []string
	for p := range snap.All() {
		visited = append(visited, podTexts(slices.Values([]*corev1.Pod{p}))...)
		s.Delete(object.Key{Namespace: p.Namespace, Name: p.Name})
		set(t, s, pod(fmt.Sprintf("ns-%d/zz-%d", i%7, i), 200+i, onNode("node-1")))
		i++
	}
	want(t, "visited", visited, all)

	snap = s.Snapshot()
	defer snap.Release()
	n := 0
	for p := range node.Get(snap, "node-1") {
		n++
		set(t, s, pod(p.Namespace+"/"+p.Name, 1000, onNode("node-2")))
	}
	want(t, "visited by index", n, 100)
	now := s.Snapshot()
	defer now.Release()
	want(t, "moved", node.Count(now, "node-2"), 100)
}

func TestDiffLeadsFromOneSnapshotToTheOther(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("a/1", 1), pod("a/2", 2), pod("a/3", 3), pod("a/4", 4)))
	a := now(t, s)
	set(t, s, pod("a/2", 11), pod("a/2", 12), pod("a/5", 13), pod("a/6", 14), pod("a/4", 15, withUID("another")))
	s.Delete(object.RawKey("a/3"))
	s.Delete(object.RawKey("a/6"))
	b := now(t, s)
	set(t, s, pod("a/1", 21)) // neither sees it

	diff := func(from, to podSnapshot) []string {
		out := changeTexts(slices.Collect(store.Diff(from, to)))
		slices.Sort(out)
		return out
	}
	want(t, "forward", diff(a, b), []string{"Added a/4@15", "Added a/5@13", "Deleted? a/3@3>3", "Deleted? a/4@4>4", "Updated a/2@2>12"})
	want(t, "back", diff(b, a), []string{"Added a/3@3", "Added a/4@4", "Deleted? a/4@15>15", "Deleted? a/5@13>13", "Updated a/2@12>2"})
	want(t, "to itself", diff(a, a), nil)
	want(t, "from nothing", diff(podSnapshot{}, a), []string{"Added a/1@1", "Added a/2@2", "Added a/3@3", "Added a/4@4"})
	want(t, "to nothing", diff(a, podSnapshot{}), []string{"Deleted? a/1@1>1", "Deleted? a/2@2>2", "Deleted? a/3@3>3", "Deleted? a/4@4>4"})
	want(t, "nothing at all", diff(podSnapshot{}, podSnapshot{}), nil)

	var order []string
	for c := range store.Diff(a, b) {
		if c.Key.Name == "4" {
			order = append(order, c.Kind.String())
		}
	}
	want(t, "another object of one name", order, []string{"Deleted", "Added"})
	other := now(t, newPodStore(t))
	wantPanic(t, "store: Diff of snapshots of two stores", func() { diff(a, other) })
}

func TestRevisionDistinguishesSnapshots(t *testing.T) {
	s := newPodStore(t)
	a, b := now(t, s), now(t, s)
	want(t, "of one state", a.Revision(), b.Revision())
	set(t, s, pod("a/1", 1))
	if now(t, s).Revision() <= a.Revision() {
		t.Error("a later state has no higher revision")
	}
}
