package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

type stringIndex = store.Index[*corev1.Pod, string]

func indexStats(t testing.TB, s *podStore, name string) store.IndexStats {
	t.Helper()
	for _, x := range s.Stats().Indexes {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no index %q", name)
	return store.IndexStats{}
}

// now pins the store for the rest of the test.
func now(t testing.TB, s *podStore) podSnapshot {
	snap := s.Snapshot()
	t.Cleanup(snap.Release)
	return snap
}

func TestS04_ValueThatEmptiesDisappears(t *testing.T) {
	node := store.Ordered(nodeIndex())
	s := newPodStore(t, node)
	set(t, s, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("x")), pod("a/3", 3, onNode("y")))
	before := now(t, s)
	set(t, s, pod("a/1", 11, onNode("y")))
	s.Delete(object.RawKey("a/2"))

	want(t, "values", slices.Collect(node.Keys(now(t, s))), []string{"y"})
	want(t, "count", node.Count(now(t, s), "x"), 0)
	want(t, "values in Stats", indexStats(t, s, "node").Values, 1)
	want(t, "values before", slices.Collect(node.Keys(before)), []string{"x", "y"})
	want(t, "count before", node.Count(before, "x"), 2)

	apply(t, s, 20, listed(20))
	want(t, "values of an empty store", slices.Collect(node.Keys(now(t, s))), nil)
	set(t, s, pod("a/1", 21, onNode("x")))
	want(t, "a value that comes back", sorted(node.Get(now(t, s), "x")), []string{"a/1@21"})
}

// answers asks an ordered index everything there is to ask.
func answers(x *stringIndex, snap podSnapshot) []string {
	out := slices.Collect(x.Keys(snap))
	for _, k := range []string{"a", "b", "c", "d", ""} {
		out = append(out, fmt.Sprint(k, x.Count(snap, k)))
		out = append(out, sorted(x.Get(snap, k))...)
		out = append(out, sorted(x.Like(snap, pod("x/y", 1, onNode(k))))...)
	}
	return out
}

func TestS04_IndexAddedLaterSeesWhatIsThere(t *testing.T) {
	early, late := store.Ordered(nodeIndex()), store.Ordered(nodeIndex())
	s := newPodStore(t, early)
	set(t, s, pod("a/1", 1, onNode("a")), pod("a/2", 2, onNode("c")), pod("a/3", 3, onNode("c")), pod("a/4", 4, onNode("d")))
	older := now(t, s)
	set(t, s, pod("a/1", 11, onNode("b")))
	s.Delete(object.RawKey("a/4"))
	s.AddIndex(late)
	s.AddIndex(late) // does nothing
	want(t, "indexes", len(s.Stats().Indexes), 2)

	want(t, "on the present state", answers(late, now(t, s)), answers(early, now(t, s)))
	want(t, "on a snapshot older than the index", answers(late, older), answers(early, older))
	if len(answers(late, older)) < 15 {
		t.Error("the answers are too short to prove anything")
	}

	set(t, s, pod("a/2", 12, onNode("d")))
	want(t, "on later states", answers(late, now(t, s)), answers(early, now(t, s)))
	want(t, "and still on the older one", answers(late, older), answers(early, older))
}

var errNoZone = errors.New("no zone")

// zoneIndex fails on pods without a zone and panics on those of "mars", after it has added
// a value.
func zoneIndex() *stringIndex {
	return store.NewMultiIndex("zone", func(p *corev1.Pod, add func(string)) error {
		zone, ok := p.Labels["zone"]
		add("all")
		switch {
		case !ok:
			return errNoZone
		case zone == "mars":
			panic("too far")
		}
		add(zone)
		return nil
	})
}

func inZone(zone string) func(*corev1.Pod) { return withLabels("zone", zone) }

func TestS04_FailingIndexFunctionDoesNotStopApply(t *testing.T) {
	zone, node := zoneIndex(), nodeIndex()
	planet := store.NewIndex("planet", func(p *corev1.Pod) byte { return p.Labels["zone"][0] }) // panics for none
	s := newPodStore(t, zone, planet, node)
	got := apply(t, s, 10, listed(10,
		pod("a/1", 1, inZone("earth"), onNode("x")), pod("a/2", 2, onNode("x")), pod("a/3", 3, inZone("mars"), onNode("x"))))
	want(t, "changes", got, []string{"Added a/1@1", "Added a/2@2", "Added a/3@3"})

	want(t, "the failing index", sorted(zone.Get(now(t, s), "all")), []string{"a/1@1"})
	want(t, "the other index", node.Count(now(t, s), "x"), 3)
	stats := indexStats(t, s, "zone")
	want(t, "failures", stats.Failures, 2)
	want(t, "last failure", fmt.Sprint(stats.LastFailure), `store: object "a/3" in index "zone": index function panicked: too far`)
	want(t, "failures of another failing one", indexStats(t, s, "planet").Failures, 1)
	want(t, "what that has", sorted(planet.Get(now(t, s), 'm')), []string{"a/3@3"})
	want(t, "failures of the other", indexStats(t, s, "node").Failures, 0)

	got = apply(t, s, 12, event(object.Updated, pod("a/2", 11, inZone("moon"))), event(object.Updated, pod("a/1", 12)))
	want(t, "changes", got, []string{"Updated a/2@2>11", "Updated a/1@1>12"})
	want(t, "a good version is indexed, a bad one is not", sorted(zone.Get(now(t, s), "all")), []string{"a/2@11"})
	want(t, "values", slices.Sorted(zone.Keys(now(t, s))), []string{"all", "moon"})
	var about *store.IndexError
	if err := indexStats(t, s, "zone").LastFailure; !errors.As(err, &about) || about.Key != object.RawKey("a/1") ||
		about.Index != "zone" || !errors.Is(err, errNoZone) {
		t.Errorf("last failure: %v", err)
	}
}

func TestS04_FailingIndexFunctionMakesSetFail(t *testing.T) {
	zone, node := zoneIndex(), nodeIndex()
	s := newPodStore(t, node, zone)
	set(t, s, pod("a/1", 1, inZone("earth"), onNode("x")))
	revision := s.Stats().Revision
	for _, c := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{pod("a/1", 2, onNode("y")), `store: object "a/1" in index "zone": no zone`},
		{pod("a/1", 2, inZone("mars")), `store: object "a/1" in index "zone": index function panicked: too far`},
		{pod("a/2", 2, onNode("y")), `store: object "a/2" in index "zone": no zone`},
	} {
		err := s.Set(c.pod)
		want(t, "error", fmt.Sprint(err), c.want)
		var about *store.IndexError
		if !errors.As(err, &about) || about.Index != "zone" || about.Key.Name != c.pod.Name {
			t.Errorf("not an IndexError of that object and index: %#v", err)
		}
	}
	want(t, "content", content(s), []string{"a/1@1"})
	want(t, "Len", s.Len(), 1)
	want(t, "revision", s.Stats().Revision, revision)
	want(t, "values of the other index", slices.Collect(node.Keys(now(t, s))), []string{"x"})
	want(t, "values", slices.Sorted(zone.Keys(now(t, s))), []string{"all", "earth"})
	set(t, s, pod("a/2", 3, inZone("earth"), onNode("x"))) // and the store goes on
	want(t, "afterwards", sorted(zone.Get(now(t, s), "earth")), []string{"a/1@1", "a/2@3"})
}

func TestS04_FailuresOfAnIndexAddedLaterAreCounted(t *testing.T) {
	zone := zoneIndex()
	s := newPodStore(t)
	set(t, s, pod("a/1", 1, inZone("earth")), pod("a/2", 2))
	older := now(t, s)
	s.AddIndex(zone)
	want(t, "failures", indexStats(t, s, "zone").Failures, 1)
	want(t, "indexed", sorted(zone.Get(now(t, s), "all")), []string{"a/1@1"})
	want(t, "scanned", sorted(zone.Get(older, "all")), []string{"a/1@1"})
	want(t, "scanned values", slices.Sorted(zone.Keys(older)), []string{"all", "earth"})
	want(t, "like one on which the function fails", sorted(zone.Like(now(t, s), pod("a/2", 2))), nil)
}

// The compiler lets an interface be a K; a value in it that is not comparable is the index
// function's failure like any other.
func TestS04_UncomparableValueIsAFailure(t *testing.T) {
	odd := store.NewIndex("odd", func(p *corev1.Pod) any {
		if p.Name == "bad" {
			return []string{"a slice"}
		}
		return p.Name
	})
	s := newPodStore(t, odd)
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("the store panics: %v", r)
		}
	}()
	apply(t, s, 10, listed(10, pod("a/1", 1), pod("a/bad", 2), pod("a/3", 3)))
	want(t, "content", content(s), []string{"a/1@1", "a/3@3", "a/bad@2"})
	want(t, "failures", indexStats(t, s, "odd").Failures, 1)
	want(t, "the others", sorted(odd.Get(now(t, s), "1")), []string{"a/1@1"})
}

func imageIndex() *stringIndex {
	return store.Ordered(store.NewMultiIndex("image", func(p *corev1.Pod, add func(string)) error {
		for _, c := range p.Spec.Containers {
			add(c.Image)
		}
		return nil
	}))
}

func running(images ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, image := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: image, Image: image})
		}
	}
}

func TestS05_SeveralValuesTheSameTwiceOrNone(t *testing.T) {
	image := imageIndex()
	s := newPodStore(t, image)
	set(t, s, pod("a/many", 1, running("go", "envoy", "fluentd")), pod("a/twice", 2, running("go", "go", "go")), pod("a/none", 3))
	check := func(what string, snap podSnapshot, pairs ...string) {
		t.Helper()
		var got []string
		for k := range image.Keys(snap) {
			objects := sorted(image.Get(snap, k))
			got = append(got, k+": "+strings.Join(objects, " "))
			want(t, what+": count of "+k, image.Count(snap, k), len(objects))
		}
		want(t, what, got, pairs)
	}
	first := now(t, s)
	check("first", first, "envoy: a/many@1", "fluentd: a/many@1", "go: a/many@1 a/twice@2")

	// One value stays, one goes, one comes; all go; the first comes.
	set(t, s, pod("a/many", 11, running("nginx", "go", "nginx")), pod("a/twice", 12), pod("a/none", 13, running("go")))
	check("second", now(t, s), "go: a/many@11 a/none@13", "nginx: a/many@11")
	check("the first again", first, "envoy: a/many@1", "fluentd: a/many@1", "go: a/many@1 a/twice@2")

	s.Delete(object.RawKey("a/many"))
	check("third", now(t, s), "go: a/none@13")
	want(t, "like many", sorted(image.Like(first, pod("x/y", 1, running("go", "envoy", "go")))), []string{"a/many@1", "a/twice@2"})
	want(t, "like nothing", sorted(image.Like(first, pod("x/y", 1))), nil)
}

func TestOrderedIndexKeys(t *testing.T) {
	priority := store.Ordered(store.NewMultiIndex("priority", func(p *corev1.Pod, add func(int32)) error {
		if p.Spec.Priority != nil {
			add(*p.Spec.Priority)
		}
		return nil
	}))
	s := newPodStore(t, priority)
	for i, v := range []int32{100, -5, 7, 100, 0} {
		set(t, s, pod(fmt.Sprint("a/", i), 1, func(p *corev1.Pod) { p.Spec.Priority = &v }))
	}
	set(t, s, pod("a/none", 1))
	snap := now(t, s)
	want(t, "keys", slices.Collect(priority.Keys(snap)), []int32{-5, 0, 7, 100})

	reverse := nodeIndex().OrderedBy(func(a, b string) int { return strings.Compare(b, a) })
	s.AddIndex(reverse)
	set(t, s, pod("a/0", 2, onNode("x")), pod("a/1", 2, onNode("y")), pod("a/2", 2, onNode("z")))
	want(t, "keys by another order", slices.Collect(reverse.Keys(now(t, s))), []string{"z", "y", "x", ""})
}

func TestOwnerIndexFindsByEveryOwner(t *testing.T) {
	owner := store.NewOwnerIndex[*corev1.Pod]()
	s := newPodStore(t, owner)
	owned := func(uids ...object.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, uid := range uids {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: uid})
			}
		}
	}
	set(t, s, pod("a/1", 1, owned("rs-1")), pod("a/2", 2, owned("rs-1", "job-1")), pod("a/3", 3))
	want(t, "rs-1", sorted(owner.Get(now(t, s), "rs-1")), []string{"a/1@1", "a/2@2"})
	want(t, "job-1", sorted(owner.Get(now(t, s), "job-1")), []string{"a/2@2"})
	want(t, "none", sorted(owner.Get(now(t, s), "")), nil)
}

func TestIndexMisuseSaysWhatToDo(t *testing.T) {
	node := nodeIndex()
	s := newPodStore(t)
	snap := now(t, s)
	wantPanic(t, `store: index "node" was not given to this store; use Options.Indexes or AddIndex`,
		func() { node.Count(snap, "x") })
}

func TestOneIndexServesSeveralStores(t *testing.T) {
	node := nodeIndex()
	a, b := newPodStore(t, node), newPodStore(t, node, node)
	set(t, a, pod("a/1", 1, onNode("x")))
	set(t, b, pod("b/1", 2, onNode("x")))
	want(t, "a", sorted(node.Get(now(t, a), "x")), []string{"a/1@1"})
	want(t, "b", sorted(node.Get(now(t, b), "x")), []string{"b/1@2"})
	want(t, "given twice", len(b.Stats().Indexes), 1)
}

func TestFindAsksAnIndexByItsName(t *testing.T) {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	byOwner := store.NewIndex("owner", func(p *corev1.Pod) object.UID { return p.UID })
	bySize := store.NewIndex("size", func(p *corev1.Pod) int { return len(p.Name) })
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{Indexes: []store.AnyIndex[*corev1.Pod]{byNode, byOwner, bySize}}))
	for _, p := range []*corev1.Pod{pod("shop/web", 1, onNode("n1")), pod("shop/api2", 2, onNode("n1")), pod("mail/web", 3, onNode("n2"))} {
		if err := s.Set(p); err != nil {
			t.Fatal(err)
		}
	}
	snap := s.Snapshot()
	defer snap.Release()
	for ask, want := range map[[2]string]string{
		{"node", "n1"}: "[shop/api2 shop/web]", {"node", "none"}: "[]", {"owner", "mail/web"}: "[mail/web]", {"size", "3"}: "[mail/web shop/web]", {"size", "x"}: "[]",
	} {
		keys, ok := snap.Find(ask[0], ask[1])
		slices.Sort(keys)
		if fmt.Sprint(keys) != want || !ok {
			t.Errorf("%v: %v %v, want %s", ask, keys, ok, want)
		}
	}
	if _, ok := snap.Find("absent", "x"); ok {
		t.Error("found an index that does not exist")
	}
	if _, ok := (store.Snapshot[*corev1.Pod]{}).Find("node", "n1"); ok {
		t.Error("found an index in the zero Snapshot")
	}
}
