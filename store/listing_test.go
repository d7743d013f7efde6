package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

func TestL11_UndecodableItemKeepsTheLastGoodState(t *testing.T) {
	s := newPodStore(t)
	good := pod("shop/web", 3)
	apply(t, s, 10, listed(10, good, pod("shop/db", 4)))

	got := apply(t, s, 20, listedItems(20, brokenItem(pod("shop/web", 15)), item(pod("shop/db", 4))))
	want(t, "changes", got, nil)
	same(t, "the last good state", get(t, s, "shop/web"), good)

	want(t, "a good version arrives", apply(t, s, 21, event(object.Updated, pod("shop/web", 21))),
		[]string{"Updated shop/web@3>21"})
}

func TestL11_UndecodableItemThatIsNotHeldIsLeftOut(t *testing.T) {
	s := newPodStore(t)
	got := apply(t, s, 10, listedItems(10, brokenItem(pod("shop/web", 3)), item(pod("shop/db", 4))))
	want(t, "changes", got, []string{"Added shop/db@4"})
	want(t, "content", content(s), []string{"shop/db@4"})
}

// An item whose key cannot be read either may be any of those that seem to be missing.
func TestL11_UndecodableItemWithoutAKeyDeletesNothing(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 3), pod("shop/db", 4)))
	got := apply(t, s, 20, listedItems(20, podItem{Err: errors.New("not JSON"), Raw: []byte("?")}, item(pod("shop/db", 14))))
	want(t, "changes", got, []string{"Updated shop/db@4>14"})
	want(t, "content", content(s), []string{"shop/db@14", "shop/web@3"})
	want(t, "the next good list", apply(t, s, 30, listed(30, pod("shop/db", 14))), []string{"Deleted? shop/web@3>3"})
}

// L14: what has no order is not guessed.
func TestL14_UnorderedVersionsLatestReceivedWins(t *testing.T) {
	s := newPodStore(t)
	version := func(v object.Version) *corev1.Pod { return pod("shop/web", 0, withVersion(v)) }
	for _, step := range []struct {
		delta podDelta
		want  []string
	}{
		{event(object.Added, version("b")), []string{"Added shop/web@b"}},
		{event(object.Updated, version("a")), []string{"Updated shop/web@b>a"}},
		{event(object.Updated, version("a")), nil}, // the very same one
		{event(object.Updated, version("007")), []string{"Updated shop/web@a>007"}},
		{event(object.Updated, version("6")), []string{"Updated shop/web@007>6"}},
		{event(object.Updated, version("5")), nil}, // these two do compare
		{event(object.Updated, version("")), []string{"Updated shop/web@6>"}},
		{event(object.Deleted, version("zzz")), []string{"Deleted shop/web@>zzz"}},
	} {
		want(t, "changes", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{step.delta}})), step.want)
	}
}

// Two objects may well have the same text for a version where the server promises nothing.
func TestL14_EqualUnorderedVersionsOfTwoObjectsAreBothStored(t *testing.T) {
	s := newPodStore(t)
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{
		listedAt(object.Mark{Version: "r1"}),
		event(object.Added, pod("shop/web", 0, withVersion("r2"))),
		event(object.Added, pod("shop/db", 0, withVersion("r2"))),
	}, Marks: []object.Mark{{Version: "r2"}}})
	want(t, "changes", changeTexts(changes), []string{"Added shop/web@r2", "Added shop/db@r2"})
}

func TestL14_VersionsOfAnyLengthCompare(t *testing.T) {
	s := newPodStore(t)
	version := func(v object.Version) podDelta { return event(object.Updated, pod("shop/web", 0, withVersion(v))) }
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{
		version("99999999999999999999"), version("100000000000000000000"), version("99999999999999999999"),
	}})
	want(t, "changes", changeTexts(changes), []string{
		"Added shop/web@99999999999999999999",
		"Updated shop/web@99999999999999999999>100000000000000000000",
	})
}

func manyPods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("ns-%d/pod-%04d", i%7, i), i+1, onNode(fmt.Sprintf("node-%d", i%50)))
	}
	return pods
}

func TestL15_RelistKeepsHeldObject(t *testing.T) {
	calls := 0
	node := store.NewIndex("node", func(p *corev1.Pod) string { calls++; return p.Spec.NodeName })
	s := newPodStore(t, node)
	first := manyPods(1000)
	apply(t, s, 2000, listed(2000, first...))
	calls = 0

	want(t, "changes of the relist", apply(t, s, 2001, listed(2001, manyPods(1000)...)), nil)
	want(t, "index calls", calls, 0)
	for _, p := range first {
		same(t, "held object", get(t, s, p.Namespace+"/"+p.Name), p)
	}
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "version", snap.Version(), "2001")
}

func TestL15_RelistAllocatesUnderOnePerHundredObjects(t *testing.T) {
	soak.Measures(t)
	const n = 1000
	s := newPodStore(t, nodeIndex())
	apply(t, s, 2000, listed(2000, manyPods(n)...))
	again := &podBatch{Changes: []podDelta{listed(2001, manyPods(n)...)}, Marks: upTo(2001)}
	var changes []podChange
	allocs := testing.AllocsPerRun(20, func() {
		var err error
		if changes, err = s.Apply(again, changes[:0]); err != nil || len(changes) != 0 {
			t.Fatal(changes, err)
		}
	})
	if allocs >= n/100 {
		t.Errorf("%v allocations for %d unchanged objects", allocs, n)
	}
}

func TestL15_HeldItemKeepsHeldObject(t *testing.T) {
	s := newPodStore(t)
	web, db := pod("shop/web", 3), pod("shop/db", 4)
	apply(t, s, 10, listed(10, web, db))
	got := apply(t, s, 20, listedItems(20, heldItem(web), item(pod("shop/db", 14))))
	want(t, "changes", got, []string{"Updated shop/db@4>14"})
	same(t, "held object", get(t, s, "shop/web"), web)
}

func TestL15_HeldItemThatIsNotHeldIsAnError(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 3), pod("shop/db", 4)))
	for _, missing := range []*corev1.Pod{
		pod("shop/new", 15), pod("shop/web", 15), pod("shop/web", 3, withUID("another")),
	} {
		changes, err := s.Apply(&podBatch{Changes: []podDelta{
			listedItems(20, heldItem(missing), heldItem(pod("shop/db", 4)), item(pod("shop/web", 3))),
		}}, nil)
		var about *store.ObjectError
		if !errors.Is(err, store.ErrNotHeld) || !errors.As(err, &about) || about.Key.Name != missing.Name {
			t.Errorf("held item %s@%s: error %v", missing.Name, missing.ResourceVersion, err)
		}
		want(t, "changes", changeTexts(changes), nil)
	}
	want(t, "content", content(s), []string{"shop/db@4", "shop/web@3"})
}

func TestL15_HeldAsksForKeyUIDAndVersion(t *testing.T) {
	s := newPodStore(t)
	set(t, s, pod("shop/web", 3), pod("shop/db", 0, withVersion("")), pod("shop/api", 3, withUID("")))
	for _, c := range []struct {
		key     string
		uid     object.UID
		version object.Version
		want    bool
	}{
		{"shop/web", "shop/web", "3", true},
		{"shop/web", "shop/web", "4", false},
		{"shop/web", "another", "3", false},
		{"shop/web", "", "3", false},
		{"shop/web", "shop/web", "", false},
		{"shop/none", "shop/none", "3", false},
		{"shop/db", "shop/db", "", false},
		{"shop/api", "", "3", false}, // it may be another object
	} {
		if got := s.Held(object.RawKey(c.key), c.uid, c.version); got != c.want {
			t.Errorf("Held(%q, %q, %q) = %v", c.key, c.uid, c.version, got)
		}
	}
}

// Issue 2: without UID or version every write is a change.
func TestL15_WithoutUIDOrVersionEveryWriteIsAChange(t *testing.T) {
	for name, anonymous := range map[string]func() *corev1.Pod{
		"no version": func() *corev1.Pod { return pod("shop/web", 0, withVersion("")) },
		"no UID":     func() *corev1.Pod { return pod("shop/web", 3, withUID("")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newPodStore(t)
			set(t, s, anonymous())
			again := anonymous()
			if got := applyBatch(t, s, &podBatch{Changes: []podDelta{listed(10, again)}}); len(got) != 1 || got[0].Kind != object.Updated {
				t.Errorf("changes: %v", changeTexts(got))
			}
			same(t, "the listed object", get(t, s, "shop/web"), again)
		})
	}
}

func TestL16_ReplaceIsOneStep(t *testing.T) {
	g, node := newGate(), nodeIndex()
	s := newPodStore(t, node, g)
	apply(t, s, 10, listed(10, pod("a/1", 1, onNode("x")), pod("a/2", 2, onNode("x")), pod("b/3", 3, onNode("x"))))
	before := []string{"a/1@1", "a/2@2", "b/3@3"}

	var changes []string
	g.during(func() {
		changes = apply(t, s, 20, listed(20, pod("a/0", 11, onNode("x")), pod("a/2", 12, onNode("y")), pod("b/3", 3, onNode("x"))))
	}, func() {
		want(t, "content in the middle", content(s), before)
		snap := s.Snapshot()
		defer snap.Release()
		want(t, "index in the middle", sorted(node.Get(snap, "x")), before)
		want(t, "version in the middle", snap.Version(), "10")
		want(t, "Len in the middle", s.Len(), 3)
	})

	want(t, "changes", changes, []string{"Added a/0@11", "Updated a/2@2>12", "Deleted? a/1@1>1"})
	want(t, "content after", content(s), []string{"a/0@11", "a/2@12", "b/3@3"})
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "index after", sorted(node.Get(snap, "x")), []string{"a/0@11", "b/3@3"})
	want(t, "version after", snap.Version(), "20")
	want(t, "Len after", s.Len(), 3)
}

func TestL16_StandaloneReplaceIsOneStep(t *testing.T) {
	g := newGate()
	s := newPodStore(t, g)
	set(t, s, pod("a/1", 1), pod("a/2", 2))
	g.during(func() {
		if err := s.Replace("20", pod("a/3", 13), pod("a/2", 12)); err != nil {
			t.Error(err)
		}
	}, func() {
		want(t, "content in the middle", content(s), []string{"a/1@1", "a/2@2"})
	})
	want(t, "content after", content(s), []string{"a/2@12", "a/3@13"})
}

func TestReplaceNamesWhatItCannotStoreAndDoesTheRest(t *testing.T) {
	acc := podMeta
	acc.Key = func(p *corev1.Pod) (object.Key, error) {
		if p.Name == "" {
			return object.Key{}, errors.New("a pod without a name")
		}
		return podMeta.Key(p)
	}
	s := store.Must(store.New(acc, podOptions{}))
	set(t, s, pod("shop/old", 1))
	err := s.Replace("10", pod("shop/web", 2), &corev1.Pod{}, nil, pod("shop/db", 3))
	want(t, "error", fmt.Sprint(err), "a pod without a name\n"+
		"store: accessor panicked on a value of type *v1.Pod: runtime error: invalid memory address or nil pointer dereference")
	want(t, "content", content(s), []string{"shop/db@3", "shop/web@2"})
}

// Outside of batches a FIFO reports listed objects one by one.
func TestReplacedDeltaOfOneObject(t *testing.T) {
	s := newPodStore(t)
	web := pod("shop/web", 5)
	apply(t, s, 10, listed(10, web))
	want(t, "the same", apply(t, s, 10, event(object.Replaced, pod("shop/web", 5))), nil)
	same(t, "held object", get(t, s, "shop/web"), web)
	want(t, "new and changed", apply(t, s, 10, event(object.Replaced, pod("shop/db", 3)), event(object.Replaced, pod("shop/web", 8))),
		[]string{"Added shop/db@3", "Updated shop/web@5>8"})
}

func TestApplyNamesTheObjectThatItCannotRead(t *testing.T) {
	s := newPodStore(t)
	changes, err := s.Apply(&podBatch{Changes: []podDelta{
		{Kind: object.Added, Key: object.RawKey("shop/web")}, event(object.Added, pod("shop/db", 3)),
	}}, nil)
	want(t, "changes", changeTexts(changes), []string{"Added shop/db@3"})
	var about *store.ObjectError
	if !errors.As(err, &about) || about.Key != object.RawKey("shop/web") {
		t.Errorf("error: %v", err)
	}
}

// Any key string of client-go's can be held: of any length, with any number of slashes.
func TestKeysOfAnyLengthAndForm(t *testing.T) {
	var names []string
	for _, n := range []int{1, 2, 31, 32, 63, 64, 127, 128, 253, 254, 255, 256, 257, 1000, 4095, 4096, 5000, 65534, 65535, 65536, 70000} {
		long := strings.Repeat("n", n-1)
		names = append(names, long+"a", long+"b", long+"a/x", "x/"+long+"a", long+"a/"+long+"b")
	}
	names = append(names, "", "/odd", "a/b/c", "a/", "a//b", "ä/ö", "a\x00b/c\x00", "a\xff/\xff", "ns/a", "n/sa", "nsa/")
	s := store.Must(store.New(object.Keyed(object.RawKey), store.Options[string]{}))
	for range 2 {
		for _, name := range names {
			if err := s.Set(name); err != nil {
				t.Fatal(err)
			}
		}
		var keys []object.Key
		for _, name := range names {
			keys = append(keys, object.RawKey(name))
			if got, ok := s.Get(object.RawKey(name)); !ok || got != name {
				t.Errorf("Get of a key of %d bytes: %.20q, %v", len(name), got, ok)
			}
		}
		slices.SortFunc(keys, object.Key.Compare)
		keys = slices.Compact(keys)
		want(t, "Len", s.Len(), len(keys))
		if !slices.Equal(slices.SortedFunc(s.Keys(), object.Key.Compare), keys) {
			t.Error("Keys are not all keys")
		}
		for i, k := range keys {
			if i%2 == 0 && !s.Delete(k) {
				t.Errorf("no key of %d bytes to delete", len(k.String()))
			}
		}
		want(t, "Len after deletions", s.Len(), len(keys)/2)
		slices.Reverse(names)
	}
}
