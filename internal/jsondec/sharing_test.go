package jsondec

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

func TestEqualSubObjectsAreShared(t *testing.T) {
	d, err := For[*corev1.Pod](Options{Share: intern.NewParts(0)})
	if err != nil {
		t.Fatal(err)
	}
	docs := podDocs(t)
	pods := make([]*corev1.Pod, 4)
	for i := range pods {
		if pods[i], err = d.Decode(docs.next()); err != nil {
			t.Fatal(err)
		}
	}
	// The first two sightings are copies; what came twice is shared from then on.
	b, c := pods[2], pods[3]
	if &b.Spec.Tolerations[0] != &c.Spec.Tolerations[0] || b.Spec.SecurityContext != c.Spec.SecurityContext {
		t.Error("tolerations and security context are not shared")
	}
	if reflect.ValueOf(b.Labels).Pointer() != reflect.ValueOf(c.Labels).Pointer() {
		t.Error("labels are not shared")
	}
	if &b.Spec.Containers[0] == &c.Spec.Containers[0] || &b.Spec.Containers[0].Env[0] != &c.Spec.Containers[0].Env[0] {
		t.Error("containers differ, their environment does not")
	}
	if &pods[0].Spec.Tolerations[0] == &pods[1].Spec.Tolerations[0] {
		t.Error("taken in at the first sight")
	}
	if cap(c.Spec.Tolerations) != len(c.Spec.Tolerations) {
		t.Error("appending to a shared slice would write to it")
	}
}

func TestWithoutATableNothingIsShared(t *testing.T) {
	d, err := For[*unstructured.Unstructured](Options{Strings: intern.NewStrings(0)})
	if err != nil {
		t.Fatal(err)
	}
	var last map[string]any
	for range 5 {
		u, err := d.Decode([]byte(certificate))
		if err != nil {
			t.Fatal(err)
		}
		spec := u.Object["spec"].(map[string]any)
		if last != nil && reflect.ValueOf(spec).Pointer() == reflect.ValueOf(last).Pointer() {
			t.Fatal("two objects have one spec")
		}
		last = spec
	}
}

// Two decoders may see the same bytes and mean different things by them.
func TestDecodersWithOneTableDoNotMixTheirObjects(t *testing.T) {
	table := intern.NewParts(0)
	raw := []byte(`{"kind":"x","metadata":{"labels":{"a":"1"},"annotations":{"a":"1"}},"spec":{"nodeSelector":{"a":"1"}},"data":{"a":"1"}}`)
	for range 4 {
		for _, drop := range [][]object.FieldPath{nil, {{"metadata", "labels", "a"}}, {{"metadata", "annotations", "a"}, {"data", "a"}}} {
			for _, typ := range []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*metav1.PartialObjectMetadata](), reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*corev1.ConfigMap]()} {
				plain, err := newMachine(typ, Options{Drop: drop})
				if err != nil {
					t.Fatal(err)
				}
				sharing, err := newMachine(typ, Options{Drop: drop, Share: table})
				if err != nil {
					t.Fatal(err)
				}
				for range 4 {
					p, err := plain.decode(raw)
					q, err2 := sharing.decode(raw)
					if err != nil || err2 != nil {
						t.Fatal(err, err2)
					}
					got, want := reflect.NewAt(typ.Elem(), q).Interface(), reflect.NewAt(typ.Elem(), p).Interface()
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("got %v\nwant %v", got, want)
					}
				}
			}
		}
	}
}

func TestTheTableCountsTheSizeOfDecodedParts(t *testing.T) {
	table := intern.NewParts(64 << 20)
	d, err := For[*corev1.Pod](Options{Share: table})
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(`{"spec":{"ephemeralContainers":null,"containers":[{}` + strings.Repeat(",{}", 999) + `]}}`)
	for range 3 {
		if _, err := d.Decode(raw); err != nil {
			t.Fatal(err)
		}
	}
	if want, got := 1000*int(reflect.TypeFor[corev1.Container]().Size()), table.Stats().Bytes; got < want {
		t.Errorf("%d bytes are counted for at least %d", got, want)
	}
}

func TestManyGoroutinesDecodeAtOnce(t *testing.T) {
	opts := Options{Strings: intern.NewStrings(256), Share: intern.NewParts(32 << 10), Drop: []object.FieldPath{object.ManagedFields}}
	pod, err := For[*corev1.Pod](opts)
	if err != nil {
		t.Fatal(err)
	}
	untyped, err := For[*unstructured.Unstructured](opts)
	if err != nil {
		t.Fatal(err)
	}
	wantPod, wantCert := map[int]*corev1.Pod{}, map[int]*unstructured.Unstructured{}
	pods, certs := podDocs(t), newEndless(certificate)
	for i := range 20 {
		if wantPod[i], err = pod.Decode(pods.next()); err != nil {
			t.Fatal(err)
		}
		if wantCert[i], err = untyped.Decode(certs.next()); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		pods, certs := podDocs(t), newEndless(certificate)
		wg.Go(func() {
			for i := range 40 {
				if i%20 == 0 {
					pods.i, certs.i = 0, 0
				}
				p, err := pod.Decode(pods.next())
				if err != nil || !reflect.DeepEqual(p, wantPod[i%20]) {
					t.Errorf("pod %d: %v", i, err)
				}
				u, err := untyped.Decode(certs.next())
				if err != nil || !reflect.DeepEqual(u, wantCert[i%20]) {
					t.Errorf("certificate %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestUnstructuredItemsGetTheKindOfTheirList(t *testing.T) {
	d, err := For[*unstructured.Unstructured](Options{Kind: "Pod", APIVersion: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]map[string]any{
		`{"a":1}`:                {"a": int64(1), "kind": "Pod", "apiVersion": "v1"},
		`{"kind":"X"}`:           {"kind": "X"},
		`{"apiVersion":"a/b/c"}`: {"apiVersion": "a/b/c"},
		`{"kind":5}`:             {"kind": "Pod", "apiVersion": "v1"},
		`null`:                   {"kind": "Pod", "apiVersion": "v1"},
	} {
		list := &unstructured.UnstructuredList{}
		if err := list.UnmarshalJSON([]byte(`{"kind":"PodList","apiVersion":"v1","items":[` + raw + `]}`)); err != nil || !reflect.DeepEqual(list.Items[0].Object, want) {
			t.Errorf("apimachinery makes %v of %s, %v", list.Items[0].Object, raw, err)
		}
		if u, err := d.Decode([]byte(raw)); err != nil || !reflect.DeepEqual(u.Object, want) {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
}
