package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// S06: objects are shared and read-only; the detector names an object that was written to and
// shows the difference.

// watched makes a store with the detector on, and returns what it reports as text.
func watched[T any](t testing.TB, acc object.Accessor[T], opts store.Options[T]) (*store.Store[T], func() []string) {
	t.Helper()
	var found []string
	opts.OnMutation = func(m store.Mutation) {
		found = append(found, fmt.Sprintf("%s %s: %s > %s", m.Key, m.Path, m.Was, m.Is))
	}
	s, err := store.New(acc, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() []string {
		out := found
		found = nil
		return out
	}
}

// Encoding a pod writes to its quantities, which keep their text.
func TestS06_TheDetectorOnlyReadsWhatReadersHave(t *testing.T) {
	var encodes, decodes int
	s, found := watched(t, podMeta, podOptions{Form: wireForm(&encodes, &decodes)})
	p, limit := pod("a/1", 1), resource.MustParse("1536Mi")
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
	it := received(t, s, p)
	applyBatch(t, s, &podBatch{Changes: []podDelta{listedItems(10, it)}})
	got, _ := s.Get(it.Key)
	var reader sync.WaitGroup
	reader.Go(func() {
		for range 100 {
			got.DeepCopy() // -race finds a write at the same time
		}
	})
	s.CheckMutations()
	reader.Wait()
	want(t, "found", found(), nil)
	got.Spec.Volumes[0].EmptyDir.SizeLimit.Add(resource.MustParse("1Mi"))
	s.CheckMutations()
	want(t, "found after a write", len(found()), 1)
}

// slim has the DeepCopyObject of the type that it embeds, which copies only that.
type slim struct {
	metav1.PartialObjectMetadata
	Size int `json:"size"`
}

func TestS06_ATypeMayInheritDeepCopyObject(t *testing.T) {
	s, found := watched(t, object.Meta[*slim](), store.Options[*slim]{Form: store.Packed(
		func(v *slim) ([]byte, error) { return json.Marshal(v) },
		func(data []byte) (*slim, error) { v := new(slim); return v, json.Unmarshal(data, v) },
	)})
	v := &slim{Size: 1}
	v.Name = "a"
	if err := s.Set(v); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Get(object.Key{Name: "a"})
	s.CheckMutations()
	want(t, "found", found(), nil)
	got.Size = 2
	s.CheckMutations()
	want(t, "found after a write", found(), []string{"a Size: 1 > 2"})
	if _, err := store.New(object.Meta[*slim](), store.Options[*slim]{OnMutation: func(store.Mutation) {}}); err == nil {
		t.Error("decoded objects can be checked without a copy")
	}
}

var mutations = []struct {
	what  string
	write func(*corev1.Pod)
	want  string
}{
	{"a field", func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }, `shop/web Spec.NodeName: "node-1" > "node-2"`},
	{"metadata", func(p *corev1.Pod) { p.Generation = 5 }, `shop/web Generation: 4 > 5`},
	{"an inline field", func(p *corev1.Pod) { p.Kind = "Node" }, `shop/web Kind: "Pod" > "Node"`},
	{"a nested slice", func(p *corev1.Pod) { p.Spec.Containers[1].Image = "x" }, `shop/web Spec.Containers[1].Image: "fluentd" > "x"`},
	{"deeper", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[1].ContainerPort = 1 },
		`shop/web Spec.Containers[0].Ports[1].ContainerPort: 443 > 1`},
	{"a map value", func(p *corev1.Pod) { p.Labels["tier"] = "back" }, `shop/web Labels["tier"]: "front" > "back"`},
	{"a new map key", func(p *corev1.Pod) { p.Labels["new"] = "x" }, `shop/web Labels["new"]: (absent) > "x"`},
	{"a lost map key", func(p *corev1.Pod) { delete(p.Labels, "tier") }, `shop/web Labels["tier"]: "front" > (absent)`},
	{"a new map", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, `shop/web Annotations["a"]: (absent) > "b"`},
	{"a longer slice", func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "c") },
		`shop/web Finalizers: [b.example.com/x a.example.com/x] > [b.example.com/x a.example.com/x c]`},
	{"a shared pointer", func(p *corev1.Pod) { *p.Spec.Priority = 7 }, `shop/web Spec.Priority: 1000 > 7`},
	{"a pointer to nil", func(p *corev1.Pod) { p.Spec.Priority = nil }, `shop/web Spec.Priority: 1000 > <nil>`},
	{"a pointer from nil", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(9)) }, `shop/web Spec.ActiveDeadlineSeconds: <nil> > 9`},
	{"a time", func(p *corev1.Pod) { p.CreationTimestamp.Time = p.CreationTimestamp.UTC().Add(time.Second) },
		`shop/web CreationTimestamp: 2026-01-02 04:04:05 +0100 CET > 2026-01-02 03:04:06 +0000 UTC`},
	{"a quantity", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		`shop/web Spec.Containers[0].Resources.Requests["cpu"]`},
}

func TestS06_DetectorNamesTheFieldOfATypedObject(t *testing.T) {
	for _, c := range mutations {
		t.Run(c.what, func(t *testing.T) {
			s, found := watched(t, podMeta, podOptions{})
			if err := errors.Join(s.Set(fullPod()), s.Set(pod("shop/other", 1))); err != nil {
				t.Fatal(err)
			}
			c.write(get(t, s, "shop/web"))
			s.CheckMutations()
			got := found()
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			s.CheckMutations()
			want(t, "reports of a second check", len(found()), 1)
		})
	}
}

func TestS06_DetectorNamesTheFieldOfAnUnstructuredObject(t *testing.T) {
	meta := object.Meta[*unstructured.Unstructured]()
	for _, c := range []struct {
		write func(map[string]any) error
		want  string
	}{
		{func(o map[string]any) error { return unstructured.SetNestedField(o, "node-2", "spec", "nodeName") },
			`shop/web Object["spec"]["nodeName"]: "node-1" > "node-2"`},
		{func(o map[string]any) error { return unstructured.SetNestedField(o, int64(3), "spec", "nodeName") },
			`shop/web Object["spec"]["nodeName"]: "node-1" > 3`},
		{func(o map[string]any) error { return unstructured.SetNestedField(o, true, "spec", "new") },
			`shop/web Object["spec"]["new"]: (absent) > true`},
		{func(o map[string]any) error {
			list, _, err := unstructured.NestedFieldNoCopy(o, "spec", "containers")
			list.([]any)[1].(map[string]any)["image"] = "x"
			return err
		}, `shop/web Object["spec"]["containers"][1]["image"]: "fluentd" > "x"`},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fullPod())
		if err != nil {
			t.Fatal(err)
		}
		s, found := watched(t, meta, store.Options[*unstructured.Unstructured]{})
		if err := s.Set(&unstructured.Unstructured{Object: content}); err != nil {
			t.Fatal(err)
		}
		u, _ := s.Get(object.RawKey("shop/web"))
		if err := c.write(u.Object); err != nil {
			t.Fatal(err)
		}
		s.CheckMutations()
		want(t, "found", found(), []string{c.want})
	}
}

func TestS06_DetectorLooksWhenAnObjectIsReplacedOrDeleted(t *testing.T) {
	for name, write := range map[string]func(*podStore) error{
		"Set":    func(s *podStore) error { return s.Set(pod("a/1", 2)) },
		"Delete": func(s *podStore) error { s.Delete(object.RawKey("a/1")); return nil },
		"Replace": func(s *podStore) error {
			return s.Replace("10", pod("a/1", 2), pod("a/2", 1))
		},
		"Replace without it": func(s *podStore) error { return s.Replace("10", pod("a/2", 1)) },
		"MODIFIED": func(s *podStore) error {
			_, err := s.Apply(&podBatch{Changes: []podDelta{event(object.Updated, pod("a/1", 2))}}, nil)
			return err
		},
		"DELETED": func(s *podStore) error {
			_, err := s.Apply(&podBatch{Changes: []podDelta{event(object.Deleted, pod("a/1", 2))}}, nil)
			return err
		},
		"the same pointer, changed and set again": func(s *podStore) error {
			p, _ := s.Get(object.RawKey("a/1"))
			return s.Set(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, found := watched(t, podMeta, podOptions{})
			set(t, s, pod("a/1", 1), pod("a/2", 1))
			get(t, s, "a/1").Spec.NodeName = "x"
			want(t, "found before", found(), nil)
			if err := write(s); err != nil {
				t.Fatal(err)
			}
			want(t, "found", found(), []string{`a/1 Spec.NodeName: "" > "x"`})
		})
	}
}

// encodedPods is the compact form of pods.
func encodedPods() *store.Form[*corev1.Pod] {
	return store.Packed(
		func(p *corev1.Pod) ([]byte, error) { return json.Marshal(p) },
		func(data []byte) (*corev1.Pod, error) { p := new(corev1.Pod); return p, json.Unmarshal(data, p) },
	)
}

func TestS06_DetectorReportsNothingWithoutWrites(t *testing.T) {
	for name, form := range map[string]*store.Form[*corev1.Pod]{"decoded": nil, "encoded": encodedPods()} {
		t.Run(name, func(t *testing.T) {
			s, found := watched(t, podMeta, podOptions{Form: form, Indexes: []podIndex{nodeIndex()}})
			full := fullPod()
			// What JSON does not distinguish: an empty list and none, and other ways to
			// write the same quantity.
			full.Annotations, full.Spec.Tolerations = map[string]string{}, []corev1.Toleration{}
			full.Spec.Containers[1].Resources.Limits = corev1.ResourceList{
				"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi"), "x": *resource.NewQuantity(1<<40, resource.BinarySI),
			}
			set(t, s, full)
			apply(t, s, 10, listed(10, full, pod("a/1", 1), pod("a/2", 2)))
			snap := s.Snapshot()
			for p := range snap.All() {
				_ = p.String()
			}
			s.CheckMutations()
			snap.Release()
			apply(t, s, 20, listed(20, pod("a/1", 11)))
			s.CheckMutations()
			want(t, "found", found(), nil)
		})
	}
}

func TestS06_DetectorWorksForTheEncodedForm(t *testing.T) {
	s, found := watched(t, podMeta, podOptions{Form: encodedPods()})
	original := fullPod()
	set(t, s, original, pod("a/1", 1))
	original.Spec.NodeName = "node-2" // the object that was set is shared while it is held
	s.CheckMutations()
	want(t, "found", found(), []string{`shop/web Spec.NodeName: "node-1" > "node-2"`})
	original.Spec.NodeName = "node-1"

	p := get(t, s, "a/1")
	p.Labels = map[string]string{"a": "b"}
	s.Delete(object.RawKey("a/1"))
	want(t, "found on delete", found(), []string{`a/1 Labels["a"]: (absent) > "b"`})
}

func TestS06_SecretValuesAreMasked(t *testing.T) {
	t.Run("typed", func(t *testing.T) {
		s, found := watched(t, object.Meta[*corev1.Secret](), store.Options[*corev1.Secret]{})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string][]byte{"token": []byte("hunter2")}}
		if err := s.Set(secret); err != nil {
			t.Fatal(err)
		}
		secret.Data["token"][0] = 'H'
		s.CheckMutations()
		want(t, "found", found(), []string{`x Data["token"][0]: (masked) > (masked)`})
	})
	t.Run("unstructured", func(t *testing.T) {
		s, found := watched(t, object.Meta[*unstructured.Unstructured](), store.Options[*unstructured.Unstructured]{})
		secret := &unstructured.Unstructured{Object: map[string]any{
			"kind": "Secret", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"token": "aHVudGVyMg=="},
		}}
		if err := s.Set(secret); err != nil {
			t.Fatal(err)
		}
		secret.Object["kind"] = "ConfigMap" // to look like something else does not help
		secret.Object["data"].(map[string]any)["token"] = "SHVudGVyMg=="
		s.CheckMutations()
		got := found()
		want(t, "reports", len(got), 1)
		for _, m := range got {
			if strings.Contains(m, "aHV") || strings.Contains(m, "SHV") || !strings.Contains(m, "(masked)") {
				t.Errorf("found %s", m)
			}
		}
	})
	t.Run("encoded", func(t *testing.T) {
		s, found := watched(t, object.Meta[*corev1.Secret](), store.Options[*corev1.Secret]{Form: store.Packed(
			func(p *corev1.Secret) ([]byte, error) { return json.Marshal(p) },
			func(data []byte) (*corev1.Secret, error) { p := new(corev1.Secret); return p, json.Unmarshal(data, p) },
		)})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, StringData: map[string]string{"token": "hunter2"}}
		if err := s.Set(secret); err != nil {
			t.Fatal(err)
		}
		secret.StringData["token"] = "hunter3"
		s.CheckMutations()
		want(t, "found", found(), []string{`x StringData["token"]: (masked) > (masked)`})
	})
}

func TestS06_MutationAsText(t *testing.T) {
	m := store.Mutation{Key: object.RawKey("shop/web"), Path: "Spec.NodeName", Was: `"a"`, Is: `"b"`}
	want(t, "text", m.String(), `object "shop/web" was written to by a reader: Spec.NodeName was "a", is "b"`)
}

type uncopyable struct {
	name string
	tags []string
}

func TestS06_DetectorNeedsACopy(t *testing.T) {
	keyed := object.Keyed(func(v *uncopyable) object.Key { return object.Key{Name: v.name} })
	ignore := func(store.Mutation) {}
	if _, err := store.New(keyed, store.Options[*uncopyable]{OnMutation: ignore}); err == nil || !strings.Contains(err.Error(), "needs Options.Copy") {
		t.Errorf("error: %v", err)
	}
	s, found := watched(t, keyed, store.Options[*uncopyable]{
		Copy: func(v *uncopyable) *uncopyable { return &uncopyable{v.name, append([]string(nil), v.tags...)} },
	})
	v := &uncopyable{name: "x", tags: []string{"a"}}
	if err := s.Set(v); err != nil {
		t.Fatal(err)
	}
	v.tags[0] = "b"
	s.CheckMutations()
	want(t, "found", found(), []string{`x tags[0]: "a" > "b"`})
}

// An interface that has DeepCopyObject is as good as a type that has.
func TestS06_DetectorCopiesThroughAnInterface(t *testing.T) {
	type apiObject interface {
		metav1.Object
		runtime.Object
	}
	if _, err := store.New(object.Meta[apiObject](), store.Options[apiObject]{OnMutation: func(store.Mutation) {}}); err != nil {
		t.Errorf("error: %v", err)
	}
}

func TestS06_DetectorOffKeepsNoCopies(t *testing.T) {
	copies := 0
	counted := func(p *corev1.Pod) *corev1.Pod { copies++; return p.DeepCopy() }
	update := func(opts podOptions) float64 {
		s := newPodStoreWith(t, opts)
		p := fullPod()
		set(t, s, p)
		return testing.AllocsPerRun(100, func() { set(t, s, p) })
	}
	plain, off := update(podOptions{}), update(podOptions{Copy: counted})
	want(t, "copies", copies, 0)
	want(t, "allocations of an update", off, plain)
	if on := update(podOptions{Copy: counted, OnMutation: func(store.Mutation) {}}); on <= off || copies == 0 {
		t.Errorf("with the detector: %v allocations, without: %v; %d copies", on, off, copies)
	}
	newPodStore(t).CheckMutations() // does nothing
}

// A reporter may well panic, as client-go's does. The batch must then be done or not done.
func TestS06_PanickingReporterLeavesNoHalfTransaction(t *testing.T) {
	var reports int
	s, err := store.New(podMeta, podOptions{OnMutation: func(m store.Mutation) { reports++; panic(m.String()) }})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, pod("a/2", 2))
	get(t, s, "a/2").Spec.NodeName = "x"
	func() {
		defer func() { _ = recover() }()
		_, _ = s.Apply(&podBatch{Changes: []podDelta{event(object.Added, pod("a/1", 11)), event(object.Updated, pod("a/2", 12))}}, nil)
	}()
	want(t, "reports", reports, 1)
	set(t, s, pod("a/3", 13))
	got := fmt.Sprint(content(s), s.Len())
	if got != "[a/2@2 a/3@13] 2" && got != "[a/1@11 a/2@12 a/3@13] 3" {
		t.Errorf("content and Len: %s", got)
	}
}

// fullPod has something at every path that the tests ask for.
func fullPod() *corev1.Pod {
	priority, grace, yes := int32(1000), int64(30), true
	p := pod("shop/web", 7, onNode("node-1"), withLabels("app.kubernetes.io/name", "web", "tier", "front"))
	p.Kind = "Pod"
	p.Generation = 4
	// Of another zone than UTC, as decoding makes it.
	p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("CET", 3600)))
	p.Finalizers = []string{"b.example.com/x", "a.example.com/x"}
	p.Spec.Priority = &priority
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.HostNetwork = true
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes}
	p.Spec.Containers = []corev1.Container{{
		Name: "web", Image: "nginx",
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 443}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")},
		}},
	}, {
		Name: "log", Image: "fluentd",
		Ports: []corev1.ContainerPort{{ContainerPort: 80}},
	}}
	p.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
	}}}
	p.Status.Phase = corev1.PodRunning
	return p
}
