package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// encodedItems returns the items of pods in the store's form.
func encodedItems(t testing.TB, s *podStore, pods ...*corev1.Pod) []podItem {
	t.Helper()
	var items []podItem
	for _, p := range pods {
		it := item(p)
		in := object.Intake[*corev1.Pod]{Encode: func(p *corev1.Pod) object.Encoded[*corev1.Pod] { return s.Encode(p, false) }}
		in.Prepare(&it)
		items = append(items, it)
	}
	return items
}

func TestL09_AnEncodedListKeepsNoDecodedObject(t *testing.T) {
	labels, owners := store.NewLabelIndex(podMeta.Labels), store.NewOwnerIndex[*corev1.Pod]()
	node := nodeIndex()
	s, encodes, decodes := newEncodedStore(t, node, labels, owners)
	const n = 50
	pods := manyPods(n)
	left := make([]weak.Pointer[corev1.Pod], n)
	for i, p := range pods {
		p.Labels = map[string]string{"app": fmt.Sprint("app-", i%3)}
		p.OwnerReferences = []metav1.OwnerReference{{UID: object.UID(fmt.Sprint("owner-", i%5))}}
		left[i] = weak.Make(p)
	}
	items := encodedItems(t, s, pods...)
	runtime.KeepAlive(pods)
	pods = nil
	if !collected(func() bool {
		return !slices.ContainsFunc(left, func(w weak.Pointer[corev1.Pod]) bool { return w.Value() != nil })
	}) {
		t.Fatal("a decoded object is held")
	}
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(1000, items...)}})
	want(t, "changes", len(changes), n)
	want(t, "on a node", node.Count(now(t, s), "node-3"), 1)
	want(t, "of an app", labels.Count(now(t, s), store.Label{Key: "app", Value: "app-1"}), 17)
	want(t, "of an owner", owners.Count(now(t, s), "owner-4"), 10)
	want(t, "encodes and decodes", []int{*encodes, *decodes}, []int{n, 0})
	want(t, "name", changes[7].New().Name, "pod-0007")
	want(t, "names of all", sorted(now(t, s).All()), sorted(func(yield func(*corev1.Pod) bool) {
		for _, p := range manyPods(n) {
			if !yield(p) {
				return
			}
		}
	}))
	// An encoded relist of the same is no news; of one that differs it is.
	next := manyPods(n)
	next[3].ResourceVersion = "1001"
	want(t, "relist", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(1001, encodedItems(t, s, next...)...)}})),
		[]string{"Updated ns-3/pod-0003@4>1001"})
}

func TestAnIndexAddedWhileAListIsEncodedSeesIt(t *testing.T) {
	s, _, decodes := newEncodedStore(t)
	items := encodedItems(t, s, pod("a/1", 1, onNode("n1")), pod("a/2", 2, onNode("n2")))
	runtime.GC()
	node := nodeIndex()
	s.AddIndex(node)
	want(t, "changes", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, items...)}})),
		[]string{"Added a/1@1", "Added a/2@2"})
	want(t, "index", sorted(node.Get(now(t, s), "n2")), []string{"a/2@2"})
	if *decodes == 0 {
		t.Error("nothing was decoded; where does the index have its values from?")
	}
}

func TestS04_AnIndexThatFailsOnAnEncodedObjectCostsItThatPlaceOnly(t *testing.T) {
	node := nodeIndex()
	picky := store.NewIndex("picky", func(p *corev1.Pod) string {
		if p.Name == "2" {
			panic("not this one")
		}
		return p.Name
	})
	s, _, _ := newEncodedStore(t, node, picky)
	items := encodedItems(t, s, pod("a/1", 1), pod("a/2", 2, onNode("n2")))
	want(t, "changes", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, items...)}})),
		[]string{"Added a/1@1", "Added a/2@2"})
	want(t, "other index", sorted(node.Get(now(t, s), "n2")), []string{"a/2@2"})
	want(t, "picky index", slices.Collect(picky.Keys(now(t, s))), []string{"1"})
	want(t, "failures", s.Stats().Indexes[1].Failures, 1)
}

func TestOnlyAFormEncodesAndMayRefuse(t *testing.T) {
	if newPodStore(t).Encode(pod("a/1", 1), false) != nil {
		t.Error("a store without a form encoded an object")
	}
	s := newPodStoreWith(t, podOptions{Form: pickyForm{}})
	for node, allowed := range map[string]bool{"refuse": false, "panic": false, "n1": true} {
		if ok := s.Encode(pod("a/1", 1, onNode(node)), false) != nil; ok != allowed {
			t.Errorf("%s: encoded is %t", node, ok)
		}
	}
}

// brittle is a pod in a form that no store knows.
type brittle struct{ p *corev1.Pod }

func (b brittle) Get() *corev1.Pod {
	if b.p == nil {
		panic("it broke")
	}
	return b.p
}

func TestAnObjectInAnotherFormIsDecoded(t *testing.T) {
	for name, s := range map[string]*podStore{"decoded": newPodStore(t), "of a form": newPodStoreWith(t, podOptions{Form: pickyForm{}})} {
		t.Run(name, func(t *testing.T) {
			good, bad := item(pod("a/1", 1)), item(pod("a/2", 2))
			good.Value = object.Value[*corev1.Pod]{Encoded: brittle{pod("a/1", 1)}}
			bad.Value = object.Value[*corev1.Pod]{Encoded: brittle{}}
			changes, err := s.Apply(&podBatch{Changes: []podDelta{listedItems(10, good, bad)}}, nil)
			want(t, "changes", changeTexts(changes), []string{"Added a/1@1"})
			want(t, "error", fmt.Sprint(err), `store: object "a/2": store: an encoded object cannot be read: it broke`)
		})
	}
}

func packedForm() store.Form[*corev1.Pod] {
	return store.Packed((*corev1.Pod).Marshal, func(data []byte) (*corev1.Pod, error) {
		p := new(corev1.Pod)
		err := p.Unmarshal(data)
		clear(data) // the form must not keep it
		return p, err
	})
}

func TestPackedObjectsComeBackAsTheyWere(t *testing.T) {
	s := newPodStoreWith(t, podOptions{Form: packedForm()})
	const n = 300
	all := manyPods(n)
	for _, p := range all {
		p.Annotations = map[string]string{"note": "that all of them have, and that is long enough to be worth a reference"}
		set(t, s, p.DeepCopy())
	}
	runtime.GC()
	runtime.GC()
	for _, p := range all {
		got := get(t, s, p.Namespace+"/"+p.Name)
		want(t, "object", got, p)
	}
}
