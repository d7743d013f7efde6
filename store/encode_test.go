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

// never is for objects that are not read soon.
func never() bool { return false }

// encodedItems returns the items of pods in the store's form.
func encodedItems(t testing.TB, s *podStore, pods ...*corev1.Pod) []podItem {
	t.Helper()
	var items []podItem
	for _, p := range pods {
		it := item(p)
		in := object.Intake[*corev1.Pod]{Encoder: s.Encoder(never)}
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
	s, encodes, _ := newEncodedStore(t, node, picky)
	items := encodedItems(t, s, pod("a/1", 1), pod("a/2", 2, onNode("n2")))
	want(t, "changes", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, items...)}})),
		[]string{"Added a/1@1", "Added a/2@2"})
	want(t, "other index", sorted(node.Get(now(t, s), "n2")), []string{"a/2@2"})
	want(t, "picky index", slices.Collect(picky.Keys(now(t, s))), []string{"1"})
	want(t, "failures", s.Stats().Indexes[1].Failures, 1)
	want(t, "encodes", *encodes, 2) // not again without the index
}

func TestAUIDIsReadWithoutDecoding(t *testing.T) {
	var encodes, decodes int
	s := newPodStoreWith(t, podOptions{Form: wireForm(&encodes, &decodes)})
	p := pod("a/1", 1)
	p.UID = "10e1b8c5-8d4f-4b73-9c8a-0f3a5e6d7c8b"
	applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, received(t, s, p))}})
	uid, ok := s.UIDOf(object.Key{Namespace: "a", Name: "1"})
	want(t, "UID", fmt.Sprint(uid, ok, decodes), fmt.Sprint(p.UID, true, 0))
	_, ok = s.UIDOf(object.Key{Namespace: "a", Name: "2"})
	want(t, "another", ok, false)
}

func TestADeletionThatIsKeptDoesNotKeepTheStore(t *testing.T) {
	var encodes, decodes int
	for _, verbatim := range []bool{false, true} {
		kept, left := func() (podChange, weak.Pointer[podStore]) {
			s := newPodStoreWith(t, podOptions{Form: wireForm(&encodes, &decodes), Verbatim: verbatim})
			applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, received(t, s, pod("a/1", 1)))}})
			last := received(t, s, pod("a/1", 11))
			changes := applyBatch(t, s, &podBatch{Changes: []podDelta{
				{Kind: object.Deleted, Key: last.Key, UID: last.UID, Version: last.Version, Value: last.Value},
			}})
			want(t, "changes", len(changes), 1)
			return changes[0], weak.Make(s)
		}()
		if !collected(func() bool { return left.Value() == nil }) {
			t.Errorf("verbatim is %t: the deletion keeps the store", verbatim)
		}
		want(t, "last state", kept.New().ResourceVersion, "11")
	}
}

func TestOnlyAFormEncodesAndMayRefuse(t *testing.T) {
	if newPodStore(t).Encoder(never).Encode != nil {
		t.Error("a store without a form encodes objects")
	}
	s := newPodStoreWith(t, podOptions{Form: pickyForm()})
	for node, allowed := range map[string]bool{"refuse": false, "panic": false, "n1": true} {
		if held, err := s.Encoder(never).Encode(pod("a/1", 1, onNode(node)), nil); (held != nil) != allowed || (err == nil) != allowed {
			t.Errorf("%s: encoded as %v, %v", node, held, err)
		}
	}
}

// wireForm is a form for bytes as they are received, which counts its calls.
func wireForm(encodes, decodes *int) *store.Form[*corev1.Pod] {
	return store.Packed(func(p *corev1.Pod) ([]byte, error) {
		*encodes++
		return p.Marshal()
	}, func(data []byte) (*corev1.Pod, error) {
		*decodes++
		p := new(corev1.Pod)
		return p, p.Unmarshal(data)
	})
}

// received returns a pod as a source delivers it that decodes no more than the encoder reads: the
// node name and labels, and its bytes.
func received(t *testing.T, s *podStore, p *corev1.Pod) podItem {
	t.Helper()
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	it := item(p)
	in := object.Intake[*corev1.Pod]{Encoder: s.Encoder(never)}
	if in.Reads != nil {
		part := &corev1.Pod{}
		part.Spec.NodeName, part.Labels = p.Spec.NodeName, p.Labels
		it.Value = object.Decoded(part)
	}
	it.Raw = raw
	in.Prepare(&it)
	clear(raw) // it is the source's
	if it.Raw != nil || it.Encoded == nil {
		t.Errorf("%s is not encoded, or keeps its bytes", it.Key)
	}
	return it
}

func TestL09_WhatIsReceivedIsHeldWithoutBeingDecodedOrEncoded(t *testing.T) {
	var encodes, decodes int
	node := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }).Reads(object.FieldPath{"spec", "nodeName"})
	labels, owners := store.NewLabelIndex[*corev1.Pod](nil), store.NewOwnerIndex[*corev1.Pod]()
	declared := store.NewIndex("first letter", func(p *corev1.Pod) byte { return p.Spec.NodeName[0] }).
		Reads(object.FieldPath{"spec", "nodeName"})
	s := newPodStoreWith(t, podOptions{Form: wireForm(&encodes, &decodes), Indexes: []store.AnyIndex[*corev1.Pod]{node, labels, owners, declared}})
	want(t, "reads", s.Encoder(never).Reads, []object.FieldPath{
		{"spec", "nodeName"}, {"metadata", "labels"}, {"metadata", "ownerReferences"}, {"spec", "nodeName"}})
	p := pod("a/1", 1, onNode("n1"))
	p.Labels, p.Status.Message = map[string]string{"app": "web"}, "whole"
	one, two := received(t, s, p), received(t, s, pod("a/2", 2, onNode("n2")))
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, one, two)}})
	want(t, "changes", len(changes), 2)
	want(t, "counts", []int{node.Count(now(t, s), "n2"), labels.Count(now(t, s), store.Label{Key: "app", Value: "web"}), declared.Count(now(t, s), 'n')}, []int{1, 1, 2})
	want(t, "encodes and decodes", []int{encodes, decodes}, []int{0, 0})
	want(t, "object", []string{changes[0].New().Name, changes[0].New().Status.Message}, []string{"1", "whole"})
	want(t, "encodes and decodes", []int{encodes, decodes}, []int{0, 1})
	runtime.KeepAlive(changes[0].New())

	// An index that was added since the source began gets its values from the whole object, and what
	// is held stays as it was received.
	three := received(t, s, pod("a/3", 11, onNode("n3")))
	byName := store.NewIndex("name", func(p *corev1.Pod) string { return p.Name })
	s.AddIndex(byName)
	decodes = 0
	applyBatch(t, s, &podBatch{Changes: []podDelta{object.ChangeOf(object.Added, &three)}})
	want(t, "by name", sorted(byName.Get(now(t, s), "3")), []string{"a/3@11"})
	want(t, "encodes and decodes", []int{encodes, min(decodes, 1)}, []int{0, 1})

	// It may read any field, so that from now on objects come whole. They are still not encoded.
	if s.Encoder(never).Reads != nil {
		t.Error("an index that may read any field is given a part")
	}
	four := received(t, s, pod("a/4", 12, onNode("n4")))
	decodes = 0
	applyBatch(t, s, &podBatch{Changes: []podDelta{object.ChangeOf(object.Added, &four)}})
	want(t, "encodes and decodes", []int{encodes, decodes}, []int{0, 0})
	want(t, "by name", sorted(byName.Get(now(t, s), "4")), []string{"a/4@12"})
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
	for name, s := range map[string]*podStore{"decoded": newPodStore(t), "of a form": newPodStoreWith(t, podOptions{Form: pickyForm()})} {
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

func packedForm() *store.Form[*corev1.Pod] {
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
