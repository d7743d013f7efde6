package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// countedForm is the encoded form of pods that counts its work.
func countedForm(encodes, decodes *int) *store.Form[*corev1.Pod] {
	return store.Packed(
		func(p *corev1.Pod) ([]byte, error) { *encodes++; return json.Marshal(p) },
		func(data []byte) (*corev1.Pod, error) {
			*decodes++
			p := new(corev1.Pod)
			return p, json.Unmarshal(data, p)
		},
	)
}

func newEncodedStore(t testing.TB, indexes ...podIndex) (s *podStore, encodes, decodes *int) {
	t.Helper()
	encodes, decodes = new(int), new(int)
	return newPodStoreWith(t, podOptions{Form: countedForm(encodes, decodes), Indexes: indexes}), encodes, decodes
}

// setGone stores a pod whose decoded form is unreachable afterwards.
func setGone(t testing.TB, s *podStore, p func() *corev1.Pod) {
	t.Helper()
	gone := setAndForget(t, s, p())
	if !collected(gone) {
		t.Fatal("the object was not collected; does the store hold on to it?")
	}
}

func TestEncodedObjectComesBackAsItWas(t *testing.T) {
	s, encodes, decodes := newEncodedStore(t)
	setGone(t, s, fullPod)
	got := get(t, s, "shop/web")
	if diff := cmp.Diff(fullPod(), got); diff != "" {
		t.Errorf("(-set +got):\n%s", diff)
	}
	want(t, "encodes and decodes", []int{*encodes, *decodes}, []int{1, 1})
}

func TestEncodedObjectIsSharedWhileSomebodyHoldsIt(t *testing.T) {
	node := nodeIndex()
	s, _, decodes := newEncodedStore(t, node)
	p := fullPod()
	set(t, s, p)
	same(t, "the object that was set", get(t, s, "shop/web"), p)
	snap := now(t, s)
	for other := range snap.All() {
		same(t, "All", other, p)
	}
	for other := range node.Get(snap, "node-1") {
		same(t, "index", other, p)
	}
	want(t, "decodes", *decodes, 0)
	runtime.KeepAlive(p)
}

func TestEncodedObjectIsDecodedOnceForAllReaders(t *testing.T) {
	s, _, decodes := newEncodedStore(t)
	setGone(t, s, fullPod)
	first := get(t, s, "shop/web")
	runtime.GC()
	same(t, "the second reader's", get(t, s, "shop/web"), first)
	want(t, "decodes", *decodes, 1)

	w := weak.Make(first)
	runtime.KeepAlive(first)
	first = nil
	if !collected(func() bool { return w.Value() == nil }) {
		t.Fatal("the decoded object was not collected")
	}
	want(t, "name", get(t, s, "shop/web").Name, "web")
	want(t, "decodes", *decodes, 2)
}

// What needs no object decodes none.
func TestL15_EncodedStoreKnowsWhatItHoldsWithoutDecoding(t *testing.T) {
	node := store.Ordered(nodeIndex())
	s, encodes, decodes := newEncodedStore(t, node)
	const n = 50
	if !collected(listAndForget(t, s, n)) {
		t.Fatal("an object was not collected; does the store hold on to it?")
	}
	*encodes, *decodes = 0, 0

	want(t, "held", s.Held(object.RawKey("ns-1/pod-0001"), "ns-1/pod-0001", "2"), true)
	want(t, "not held", s.Held(object.RawKey("ns-1/pod-0001"), "ns-1/pod-0001", "3"), false)
	before := now(t, s)
	want(t, "relist", apply(t, s, 1001, listed(1001, manyPods(n)...)), nil)
	items := make([]podItem, n)
	for i, p := range manyPods(n) {
		items[i] = heldItem(p)
	}
	want(t, "relist of held items", apply(t, s, 1002, listedItems(1002, items...)), nil)
	want(t, "keys", len(slices.Collect(now(t, s).Keys())), n)
	want(t, "count", node.Count(now(t, s), "node-3"), 1)
	want(t, "values", len(slices.Collect(node.Keys(now(t, s)))), n)
	want(t, "stale event", apply(t, s, 1003, event(object.Updated, pod("ns-1/pod-0001", 2))), nil)
	want(t, "difference", len(slices.Collect(store.Diff(before, now(t, s)))), 0)
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(1004, items[1:]...)}})
	want(t, "vanished", len(changes), 1)
	want(t, "encodes and decodes", []int{*encodes, *decodes}, []int{0, 0})

	want(t, "the vanished object", changes[0].New().Name, "pod-0000")
	want(t, "decodes when asked", *decodes, 1)
}

// listAndForget lists pods and returns how to see whether all were collected.
func listAndForget(t testing.TB, s *podStore, n int) (gone func() bool) {
	t.Helper()
	pods := manyPods(n)
	left := make([]weak.Pointer[corev1.Pod], n)
	for i, p := range pods {
		left[i] = weak.Make(p)
	}
	apply(t, s, 1000, listed(1000, pods...))
	return func() bool {
		return !slices.ContainsFunc(left, func(w weak.Pointer[corev1.Pod]) bool { return w.Value() != nil })
	}
}

var errTooLarge = errors.New("too large")

// pickyForm refuses some objects and panics on others.
func pickyForm() *store.Form[*corev1.Pod] {
	return store.Packed(func(p *corev1.Pod) ([]byte, error) {
		switch p.Spec.NodeName {
		case "refuse":
			return nil, errTooLarge
		case "panic":
			panic("no form for it")
		}
		return p.Marshal()
	}, func(data []byte) (*corev1.Pod, error) { p := new(corev1.Pod); return p, p.Unmarshal(data) })
}

func TestFormThatRefusesCostsOneObjectOnly(t *testing.T) {
	for node, cause := range map[string]string{
		"refuse": "store: encoding a *v1.Pod: too large",
		"panic":  "store: form panicked on a value of type *v1.Pod: no form for it",
	} {
		t.Run(node, func(t *testing.T) {
			byNode := nodeIndex()
			s := newPodStoreWith(t, podOptions{Form: pickyForm(), Indexes: []podIndex{byNode}})
			changes, err := s.Apply(&podBatch{Changes: []podDelta{
				listed(10, pod("a/1", 1), pod("a/2", 2, onNode(node)), pod("a/3", 3)),
			}}, nil)
			want(t, "changes", changeTexts(changes), []string{"Added a/1@1", "Added a/3@3"})
			want(t, "error", fmt.Sprint(err), `store: object "a/2": `+cause)
			var about *store.ObjectError
			if !errors.As(err, &about) || about.Key != object.RawKey("a/2") || node == "refuse" && !errors.Is(err, errTooLarge) {
				t.Errorf("error: %#v", err)
			}

			// The last state that it could hold stays, also when it is listed.
			changes, err = s.Apply(&podBatch{Changes: []podDelta{
				event(object.Updated, pod("a/1", 11, onNode(node))), event(object.Updated, pod("a/3", 12)),
			}}, nil)
			want(t, "changes", changeTexts(changes), []string{"Updated a/3@3>12"})
			want(t, "error", fmt.Sprint(err), `store: object "a/1": `+cause)
			err = s.Replace("20", pod("a/1", 13, onNode(node)), pod("a/3", 12))
			want(t, "error", fmt.Sprint(err), `store: object "a/1": `+cause)
			err = s.Set(pod("a/3", 21, onNode(node)))
			want(t, "error", fmt.Sprint(err), `store: object "a/3": `+cause)
			want(t, "content", content(s), []string{"a/1@1", "a/3@12"})
			want(t, "Len", s.Len(), 2)
			want(t, "index", slices.Collect(byNode.Keys(now(t, s))), []string{""})
			want(t, "later", apply(t, s, 30, event(object.Updated, pod("a/1", 30))), []string{"Updated a/1@1>30"})
		})
	}
}

// The final state of a deleted object is reported as it came, and never put into a form.
func TestFormThatRefusesTheFinalStateDoesNotStopTheDeletion(t *testing.T) {
	s := newPodStoreWith(t, podOptions{Form: pickyForm()})
	set(t, s, pod("a/1", 1))
	want(t, "changes", apply(t, s, 10, event(object.Deleted, pod("a/1", 10, onNode("refuse")))), []string{"Deleted a/1@1>10"})
	want(t, "content", content(s), nil)
}

func TestEncodedIndexAddedLaterSeesWhatIsThere(t *testing.T) {
	s, _, _ := newEncodedStore(t)
	setGone(t, s, fullPod)
	node := nodeIndex()
	s.AddIndex(node)
	want(t, "index", sorted(node.Get(now(t, s), "node-1")), []string{"shop/web@7"})
}

// Decoders cut the strings of an object from one buffer. Keys and index values that are
// kept must not keep that.
func TestS08_KeysAndIndexValuesDoNotKeepWhatTheyWereCutFrom(t *testing.T) {
	labels := store.NewLabelIndex(podMeta.Labels)
	s, _, _ := newEncodedStore(t, nodeIndex(), labels, store.NewOwnerIndex[*corev1.Pod]())
	cut := func(text string) (string, func() bool) {
		buffer := new([1 << 16]byte)
		copy(buffer[:], text)
		w := weak.Make(buffer)
		return unsafe.String(&buffer[0], len(text)), func() bool { return w.Value() == nil }
	}
	ns, nsGone := cut("shop")
	name, nameGone := cut("web")
	node, nodeGone := cut("node-1")
	key, keyGone := cut("app")
	value, valueGone := cut("front")
	uid, uidGone := cut("0123")
	version, versionGone := cut("77")
	owner, ownerGone := cut("4567")
	p := pod("", 1, onNode(node), withLabels(key, value), withUID(object.UID(uid)), withVersion(object.Version(version)))
	p.Namespace, p.Name, p.OwnerReferences = ns, name, []metav1.OwnerReference{{UID: object.UID(owner)}}
	set(t, s, p)
	p = pod("shop/other", 2, withLabels("app", "back")) // the writer may remember the last one
	p.OwnerReferences = []metav1.OwnerReference{{UID: "x"}}
	set(t, s, p)
	for what, gone := range map[string]func() bool{
		"namespace": nsGone, "name": nameGone, "node": nodeGone, "label": keyGone, "label value": valueGone,
		"UID": uidGone, "version": versionGone, "owner": ownerGone,
	} {
		if !collected(gone) {
			t.Errorf("the buffer of the %s is kept", what)
		}
	}
	want(t, "found by label", labels.Count(now(t, s), store.Label{Key: "app", Value: "front"}), 1)
}

func TestEncodedFormThatCannotDecodeWhatItEncodedPanics(t *testing.T) {
	s := newPodStoreWith(t, podOptions{Form: store.Packed(
		func(*corev1.Pod) ([]byte, error) { return []byte("?"), nil },
		func([]byte) (*corev1.Pod, error) { return nil, errTooLarge },
	)})
	setGone(t, s, fullPod)
	wantPanic(t, "store: decoding a *v1.Pod that was encoded here: too large", func() { s.Get(object.RawKey("shop/web")) })
}
