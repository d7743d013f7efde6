package protodec

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// replica returns the i-th pod of a template.
func replica(i int) *corev1.Pod {
	yes, grace := true, int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%05d", i), Namespace: "shop", UID: "u", ResourceVersion: fmt.Sprint(1000 + i),
			Labels: map[string]string{"app": "web", "tier": "front"},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/web:1.2.3", Args: []string{"--listen=:8080", "--verbose"},
				Env:             []corev1.EnvVar{{Name: "LANGUAGE", Value: "go"}},
				SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes},
			}},
			NodeName: fmt.Sprintf("node-%d", i),
		},
	}
}

// decodeAll decodes replicas one after the other.
func decodeAll(t *testing.T, opts Options, n int) []*corev1.Pod {
	t.Helper()
	d := must(For[*corev1.Pod](opts))
	var pods []*corev1.Pod
	for i := range n {
		got, err := d.Decode(must(replica(i).Marshal()))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, replica(i)) {
			t.Fatalf("pod %d: %#v", i, got)
		}
		pods = append(pods, got)
	}
	return pods
}

func TestEqualPartsAreSharedAndOthersAreNot(t *testing.T) {
	pods := decodeAll(t, Options{Share: intern.NewParts(0)}, 4)
	a, b := pods[2], pods[3]
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("containers are not shared")
	}
	if reflect.ValueOf(a.Labels).UnsafePointer() != reflect.ValueOf(b.Labels).UnsafePointer() {
		t.Error("labels are not shared")
	}
	if a.Spec.TerminationGracePeriodSeconds != b.Spec.TerminationGracePeriodSeconds {
		t.Error("the grace period is not shared")
	}
	if a.Name == b.Name || a.Spec.NodeName == b.Spec.NodeName {
		t.Error("names are shared")
	}
	if c := a.Spec.Containers; cap(c) != len(c) {
		t.Errorf("appending to a shared slice would write to it: capacity %d, length %d", cap(c), len(c))
	}
}

func TestNothingIsSharedUnlessAskedFor(t *testing.T) {
	pods := decodeAll(t, Options{}, 4)
	a, b := pods[2], pods[3]
	if &a.Spec.Containers[0] == &b.Spec.Containers[0] ||
		reflect.ValueOf(a.Labels).UnsafePointer() == reflect.ValueOf(b.Labels).UnsafePointer() ||
		a.Spec.TerminationGracePeriodSeconds == b.Spec.TerminationGracePeriodSeconds ||
		a.Spec.Containers[0].SecurityContext.RunAsNonRoot == b.Spec.Containers[0].SecurityContext.RunAsNonRoot {
		t.Error("pods share memory")
	}
}

func TestStringsThatRepeatAreInterned(t *testing.T) {
	pods := decodeAll(t, Options{Strings: intern.NewStrings(0)}, 5)
	a, b := pods[3], pods[4]
	if unsafe.StringData(a.Namespace) != unsafe.StringData(b.Namespace) ||
		unsafe.StringData(a.Labels["app"]) != unsafe.StringData(b.Labels["app"]) {
		t.Error("equal strings are two")
	}
}

func TestPartsServeDecodersOfOtherTypes(t *testing.T) {
	share := intern.NewParts(0)
	pods := decodeAll(t, Options{Share: share}, 3)
	d := must(For[*corev1.PodTemplate](Options{Share: share}))
	got, err := d.Decode(must((&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: replica(0).Spec}}).Marshal()))
	if err != nil {
		t.Fatal(err)
	}
	if &got.Template.Spec.Containers[0] != &pods[2].Spec.Containers[0] {
		t.Error("the template's containers are not those of its pods")
	}
}

func TestTheTableOfPartsStaysWithinItsLimit(t *testing.T) {
	soak.Measures(t)
	for _, limit := range []int{1, 5_000, 100_000, 1 << 20} {
		share := intern.NewParts(limit)
		d := must(For[*corev1.Pod](Options{Share: share}))
		for i := range 3_000 {
			pod := replica(i)
			pod.Labels["app"] = fmt.Sprint(i)
			pod.Spec.Containers[0].Image = fmt.Sprint(i)
			raw := must(pod.Marshal())
			for range 3 { // the third finds its parts, so that the decoder goes on looking for them
				if got, err := d.Decode(raw); err != nil || !reflect.DeepEqual(got, pod) {
					t.Fatalf("%#v, %v", got, err)
				}
				if st := share.Stats(); st.Bytes > limit || st.Bytes < 0 {
					t.Fatalf("limit %d: %+v", limit, st)
				}
			}
		}
		st := share.Stats()
		if st.Taken-st.Displaced != uint64(st.Parts) || limit > 10_000 && (st.Parts == 0 || st.Displaced == 0) {
			t.Errorf("limit %d: %+v", limit, st)
		}
	}
}

func TestWhatComesOnceIsNotTakenIn(t *testing.T) {
	share := intern.NewParts(0)
	d := must(For[*metav1.PartialObjectMetadata](Options{Share: share}))
	for i := range 2_000 {
		must(d.Decode(must((&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"name": fmt.Sprint(i)},
		}}).Marshal())))
	}
	if st := share.Stats(); st.Taken > 5 {
		t.Errorf("%+v", st)
	}
}

func TestManyGoroutinesDecodeTheSame(t *testing.T) {
	opts := Options{Strings: intern.NewStrings(64), Share: intern.NewParts(20_000)}
	d := must(For[*corev1.Pod](opts))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				want := replica((i + g*7) % 50)
				want.Labels["app"] = fmt.Sprint(i % 5)
				got, err := d.Decode(must(want.Marshal()))
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%#v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Strings and shared parts of an object stay valid after its memory was used for another.
func TestO02_AnObjectInReusedMemoryHasNothingOfTheOneBefore(t *testing.T) {
	d := must(For[*corev1.Pod](Options{Strings: intern.NewStrings(0), Share: intern.NewParts(0)}))
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	for i := range 100 {
		first := must(d.Decode(must(replica(i).Marshal())))
		name, labels, containers := first.Name, first.Labels, first.Spec.Containers
		d.Reuse(first)
		if got := must(d.Decode(must(bare.Marshal()))); !reflect.DeepEqual(got, bare) {
			t.Fatalf("decoded %v, want %v", got, bare)
		}
		want := replica(i)
		if name != want.Name || !reflect.DeepEqual(labels, want.Labels) || !reflect.DeepEqual(containers, want.Spec.Containers) {
			t.Fatalf("what was read of %s is %q, %v and %v now", want.Name, name, labels, containers)
		}
	}
}

// Equal bytes of one type are not equal parts if other fields of them are decoded at each place.
func TestO02_PlacesOfWhichOtherFieldsAreDecodedShareNothing(t *testing.T) {
	d := must(For[*corev1.PodTemplate](Options{
		Only:  []object.FieldPath{{"metadata", "labels"}, {"template", "metadata", "labels", "tier"}},
		Share: intern.NewParts(0),
	}))
	labels := map[string]string{"app": "web", "tier": "front"}
	raw := must((&corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Template:   corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
	}).Marshal())
	for range 4 {
		got := must(d.Decode(raw))
		if !reflect.DeepEqual(got.Labels, labels) || !reflect.DeepEqual(got.Template.Labels, map[string]string{"tier": "front"}) {
			t.Fatalf("labels %v, and %v of the template", got.Labels, got.Template.Labels)
		}
	}
}
