package store_test

import (
	"fmt"
	"slices"
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

// valuesAt returns the values that a field index finds in one object, sorted.
func valuesAt[T any](t testing.TB, acc object.Accessor[T], path string, obj T) []string {
	t.Helper()
	x, err := store.FieldIndex[T](path)
	if err != nil {
		t.Fatal(err)
	}
	s := store.Must(store.New(acc, store.Options[T]{Indexes: []store.AnyIndex[T]{x}}))
	if err := s.Set(obj); err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot()
	defer snap.Release()
	return slices.Sorted(x.Keys(snap))
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

var fieldPaths = []struct {
	path string
	want []string
}{
	{"spec.nodeName", []string{"node-1"}},
	{".spec.nodeName", []string{"node-1"}},
	{"status.phase", []string{"Running"}},
	{"metadata.name", []string{"web"}},
	{"metadata.uid", []string{"shop/web"}},
	{"kind", []string{"Pod"}}, // inline
	{"metadata.generation", []string{"4"}},
	{"metadata.creationTimestamp", []string{"2026-01-02T03:04:05Z"}}, // as JSON has it
	{"metadata.labels[app.kubernetes.io/name]", []string{"web"}},
	{`metadata.labels["app.kubernetes.io/name"]`, []string{"web"}},
	{"metadata.labels['tier']", []string{"front"}},
	{"metadata.labels.tier", []string{"front"}},
	{"metadata.labels[none]", nil},
	{"metadata.annotations.tier", nil},
	{"metadata.finalizers", []string{"a.example.com/x", "b.example.com/x"}},
	{"metadata.ownerReferences.uid", nil},
	{"metadata.deletionTimestamp", nil},
	{"spec.priority", []string{"1000"}},
	{"spec.terminationGracePeriodSeconds", []string{"30"}},
	{"spec.hostNetwork", []string{"true"}},
	{"spec.securityContext.runAsNonRoot", []string{"true"}},
	{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.key", nil},
	{"spec.containers.image", []string{"fluentd", "nginx"}},
	{"spec.containers.ports.containerPort", []string{"443", "80"}},
	{"spec.containers.resources.requests.cpu", []string{"1500m"}},
	{"spec.containers.readinessProbe.httpGet.port", []string{"http"}}, // inline below a pointer
	{"spec.volumes.configMap.name", []string{"settings"}},             // inline twice
}

func TestFieldIndexOfATypedObject(t *testing.T) {
	for _, c := range fieldPaths {
		t.Run(c.path, func(t *testing.T) {
			want(t, "values", valuesAt(t, podMeta, c.path, fullPod()), c.want)
		})
	}
}

// The same paths find the same values in the same object, however it was decoded.
func TestFieldIndexOfAnUnstructuredObject(t *testing.T) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fullPod())
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	for _, c := range fieldPaths {
		t.Run(c.path, func(t *testing.T) {
			want(t, "values", valuesAt(t, object.Meta[*unstructured.Unstructured](), c.path, u), c.want)
		})
	}
}

func TestFieldIndexOfUnstructuredValues(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x"},
		"spec": map[string]any{
			"float": 1.5, "int": int64(7), "yes": true, "none": nil,
			"list":  []any{"a", "b", []any{"c"}},
			"items": []any{map[string]any{"n": "1"}, map[string]any{}, map[string]any{"n": "2"}, "odd"},
		},
	}}
	for path, values := range map[string][]string{
		"spec.float": {"1.5"}, "spec.int": {"7"}, "spec.yes": {"true"}, "spec.none": nil, "spec.missing": nil,
		"spec.list": {"a", "b", "c"}, "spec.items.n": {"1", "2"}, "spec": nil, "spec.int.deeper": nil,
	} {
		want(t, path, valuesAt(t, object.Meta[*unstructured.Unstructured](), path, u), values)
	}
}

// JSON has no creation time for an object that was never created.
func TestFieldIndexZeroTimeIsNoValue(t *testing.T) {
	want(t, "values", valuesAt(t, podMeta, "metadata.creationTimestamp", pod("shop/web", 1)), nil)
}

// In JSON bytes are one text, not a list of numbers.
func TestFieldIndexBytesAreOneValue(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string][]byte{"token": []byte("hi")}}
	x, err := store.FieldIndex[*corev1.Secret]("data.token")
	if err != nil {
		return // to refuse it is as good
	}
	s := store.Must(store.New(object.Meta[*corev1.Secret](), store.Options[*corev1.Secret]{Indexes: []store.AnyIndex[*corev1.Secret]{x}}))
	if err := s.Set(secret); err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "values", slices.Collect(x.Keys(snap)), []string{"aGk="})
}

func TestFieldIndexOfOtherTypes(t *testing.T) {
	type base struct {
		Kind string `json:"kind"`
	}
	type thing struct {
		base // JSON has the fields of an embedded struct even if its type is not exported
		ID   string
		Size float64        `json:"size"`
		Tags map[string]int `json:"tags"`
		Skip string         `json:"-"`
		Grid [2]uint8       `json:"grid"`
		name string
	}
	keyed := object.Keyed(func(v thing) object.Key { return object.Key{Name: v.ID} })
	v := thing{base: base{"k"}, ID: "7", Size: 2.5, Tags: map[string]int{"a": 3}, Grid: [2]uint8{4, 5}, name: "x"}
	for path, values := range map[string][]string{
		"ID": {"7"}, "size": {"2.5"}, "tags.a": {"3"}, "grid": {"4", "5"}, "kind": {"k"},
	} {
		t.Run(path, func(t *testing.T) {
			if _, err := store.FieldIndex[thing](path); err != nil {
				t.Fatal(err)
			}
			want(t, "values", valuesAt(t, keyed, path, v), values)
		})
	}
	for _, path := range []string{"Skip", "name"} {
		if _, err := store.FieldIndex[thing](path); err == nil {
			t.Errorf("%q is not in the JSON form, but accepted", path)
		}
	}
}

func TestFieldIndexOfAnEmbeddedPointer(t *testing.T) {
	type thing struct {
		*corev1.LocalObjectReference // JSON has its fields here
		ID                           string
	}
	keyed := object.Keyed(func(v *thing) object.Key { return object.Key{Name: v.ID} })
	if _, err := store.FieldIndex[*thing]("name"); err != nil {
		t.Fatal(err)
	}
	want(t, "set", valuesAt(t, keyed, "name", &thing{LocalObjectReference: &corev1.LocalObjectReference{Name: "x"}}), []string{"x"})
	want(t, "nil", valuesAt(t, keyed, "name", &thing{}), nil)
}

func TestFieldIndexWrongPathIsAnErrorThatNamesThePart(t *testing.T) {
	for path, message := range map[string]string{
		"spec.nodename":              `store: bad field path "spec.nodename": v1.PodSpec has no field "nodename"; did you mean "nodeName"?`,
		"spec.NODENAME":              `store: bad field path "spec.NODENAME": v1.PodSpec has no field "NODENAME"; did you mean "nodeName"?`,
		"spec.nodNam":                `store: bad field path "spec.nodNam": v1.PodSpec has no field "nodNam"; did you mean "nodeName"?`,
		"spec.image":                 `store: bad field path "spec.image": v1.PodSpec has no field "image"`,
		"sepc.nodeName":              `store: bad field path "sepc.nodeName": v1.Pod has no field "sepc"; did you mean "spec"?`,
		"Kind":                       `store: bad field path "Kind": v1.Pod has no field "Kind"; did you mean "kind"?`,
		"spec.containers.img.tag":    `store: bad field path "spec.containers.img.tag": v1.Container has no field "img"; did you mean "image"?`,
		"spec.containers[0].image":   `store: bad field path "spec.containers[0].image": v1.Container has no field "0"`,
		"spec.volumes.configmap.x":   `store: bad field path "spec.volumes.configmap.x": v1.Volume has no field "configmap"; did you mean "configMap"?`,
		"spec.nodeName.first":        `store: bad field path "spec.nodeName.first": string has no fields, so there is no "first" in it`,
		"metadata.labels.app.name":   `store: bad field path "metadata.labels.app.name": string has no fields, so there is no "name" in it`,
		"spec":                       `store: bad field path "spec": it ends at v1.PodSpec, which is not a single value; name a field of it`,
		"spec.containers":            `store: bad field path "spec.containers": it ends at v1.Container, which is not a single value; name a field of it`,
		"metadata.labels":            `store: bad field path "metadata.labels": it ends at map[string]string, which is not a single value; name a field of it`,
		"":                           `store: bad field path "": it has an empty part after ""`,
		"spec..nodeName":             `store: bad field path "spec..nodeName": it has an empty part after "spec"`,
		"spec.":                      `store: bad field path "spec.": it has an empty part after "spec"`,
		"metadata.labels[]":          `store: bad field path "metadata.labels[]": it has empty brackets after "metadata.labels"`,
		"metadata.labels['']":        `store: bad field path "metadata.labels['']": it has empty brackets after "metadata.labels"`,
		"metadata.labels[a.b":        `store: bad field path "metadata.labels[a.b": the bracket before "a.b" is never closed`,
		"metadata.labels[a].":        `store: bad field path "metadata.labels[a].": it has an empty part after "metadata.labels.a"`,
		"[spec].nodeName":            `store: bad field path "[spec].nodeName": it has an empty part after ""`,
		"spec.containers.env.secret": `store: bad field path "spec.containers.env.secret": v1.EnvVar has no field "secret"`,
	} {
		x, err := store.FieldIndex[*corev1.Pod](path)
		if x != nil || err == nil || err.Error() != message {
			t.Errorf("FieldIndex(%q):\n got %v\nwant %s", path, err, message)
		}
	}
	if _, err := store.FieldIndex[metav1.Object]("spec.nodeName"); err == nil {
		t.Error("a path into an interface is accepted")
	}
}

// Only the form of a path can be checked for unstructured objects.
func TestFieldIndexWrongFormIsAnErrorForUnstructuredObjectsToo(t *testing.T) {
	for _, path := range []string{"", "a..b", "a[b", "a[]", "a."} {
		if _, err := store.FieldIndex[*unstructured.Unstructured](path); err == nil {
			t.Errorf("FieldIndex(%q): %v", path, err)
		}
	}
}

func TestFieldIndexNeedsADotBehindABracket(t *testing.T) {
	if _, err := store.FieldIndex[*unstructured.Unstructured]("metadata.labels[app]name"); err == nil {
		t.Errorf("error: %v", err)
	}
}

func TestFieldIndexFollowsChanges(t *testing.T) {
	node, err := store.FieldIndex[*corev1.Pod]("spec.nodeName")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "name", node.Name(), "spec.nodeName")
	s := newPodStore(t, node)
	set(t, s, pod("a/1", 1), pod("a/2", 2, onNode("x")))
	want(t, "unscheduled", sorted(node.Get(now(t, s), "")), []string{"a/1@1"})
	set(t, s, pod("a/1", 3, onNode("x")))
	want(t, "scheduled", sorted(node.Get(now(t, s), "x")), []string{"a/1@3", "a/2@2"})
	want(t, "values", slices.Collect(node.Keys(now(t, s))), []string{"x"})
}

// An update that leaves the field as it is costs what it costs without the index.
func TestFieldIndexAllocatesNothingForAnUnchangedField(t *testing.T) {
	update := func(paths ...string) float64 {
		var indexes []podIndex
		for _, path := range paths {
			x, err := store.FieldIndex[*corev1.Pod](path)
			if err != nil {
				t.Fatal(err)
			}
			indexes = append(indexes, x)
		}
		s := newPodStore(t, indexes...)
		p := fullPod()
		set(t, s, p)
		return testing.AllocsPerRun(100, func() { set(t, s, p) })
	}
	without := update()
	for _, paths := range [][]string{
		{"spec.nodeName"}, {"status.phase"}, {"metadata.labels[tier]"}, {"spec.containers.image"}, {"spec.securityContext.runAsNonRoot"},
	} {
		want(t, fmt.Sprint("allocations with ", paths), update(paths...), without)
	}
}
