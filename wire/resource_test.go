package wire

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// Lamp is a custom resource with its own Go type.
type Lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LampSpec `json:"spec"`
}

// LampSpec is the spec of a lamp.
type LampSpec struct {
	Watts int64 `json:"watts,omitempty"`
}

var lampResource = object.Resource{Group: "home.example", Version: "v1", Resource: "lamps", Kind: "Lamp", Namespaced: true}

func TestOfKnowsBuiltInKindsByTheirType(t *testing.T) {
	pods := wiretest.Must(Of[*corev1.Pod]())(t)
	if pods.Resource != podResource || pods.Encoding() != Protobuf || pods.Valid() != nil || pods.New() == nil {
		t.Errorf("pods are %+v, %s", pods.Resource, pods.Encoding())
	}
	deployments := MustOf[*appsv1.Deployment]()
	if deployments.Resource.String() != "deployments.apps" || deployments.Version != "v1" || !deployments.Namespaced || deployments.Kind != "Deployment" {
		t.Errorf("deployments are %+v", deployments.Resource)
	}
	if MustOf[*corev1.Node]().Resource != nodeResource {
		t.Error("nodes are something else")
	}
	a, b := pods.New(), pods.New()
	if a == b {
		t.Error("New returns the same object twice")
	}
}

// Desk is a custom resource that names its own resource.
type Desk struct{ Lamp }

// APIResource returns the resource of desks.
func (*Desk) APIResource() object.Resource { return deskResource }

var deskResource = object.Resource{Group: "home.example", Version: "v1", Resource: "desks", Kind: "Desk", Namespaced: true}

func TestOfUsesAPIResource(t *testing.T) {
	got, want := wiretest.Must(Of[*Desk]())(t), Custom[*Desk](deskResource)
	if got.Resource != want.Resource || got.Encoding() != want.Encoding() || got.Valid() != nil || got.New() == nil {
		t.Errorf("%+v, %s, %v; want %+v, %s", got.Resource, got.Encoding(), got.Valid(), want.Resource, want.Encoding())
	}
	failsWith[Desk](t, "not a pointer") // the method is the pointer's
}

func TestResourceOfAnObject(t *testing.T) {
	for _, c := range []struct {
		obj  any
		want object.Resource
	}{
		{&corev1.Pod{}, podResource}, {&Desk{}, deskResource},
		{&Lamp{}, object.Resource{}}, {corev1.Pod{}, object.Resource{}}, {nil, object.Resource{}}, {&unstructured.Unstructured{}, object.Resource{}},
	} {
		if res, ok := ResourceOf(c.obj); res != c.want || ok != (c.want != object.Resource{}) {
			t.Errorf("%T: %+v, %v", c.obj, res, ok)
		}
	}
}

func failsWith[T any](t *testing.T, want string) {
	t.Helper()
	if _, err := Of[T](); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%T: %v; want %q in it", *new(T), err, want)
	}
}

func TestOfRejectsOtherTypes(t *testing.T) {
	failsWith[corev1.Pod](t, "such as *corev1.Pod")
	failsWith[*string](t, "not a pointer to an API type")
	failsWith[metav1.Object](t, "not a pointer to an API type")
	failsWith[*Lamp](t, "wire.Custom")
	failsWith[*corev1.PodSpec](t, "not a built-in kind")
	failsWith[*policyv1.Eviction](t, "not a built-in kind")
	failsWith[*unstructured.Unstructured](t, "wire.Unstructured")
	defer func() {
		if recover() == nil {
			t.Error("MustOf does not panic")
		}
	}()
	MustOf[*Lamp]()
}

// naked has neither kind nor metadata.
type naked struct{ Watts int }

func TestResourceValid(t *testing.T) {
	for _, err := range []error{
		Custom[*Lamp](lampResource).Valid(), Unstructured(lampResource).Valid(), Metadata(lampResource).Valid(),
		MustOf[*corev1.Pod]().Encoded(JSON).Valid(), Metadata(lampResource).Encoded(JSON).Valid(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for want, err := range map[string]error{
		"is empty":                  Resource[*Lamp]{}.Valid(),
		"pointer to a struct":       Custom[Lamp](lampResource).Valid(),
		"does not support protobuf": Custom[*Lamp](lampResource).Encoded(Protobuf).Valid(),
		"unknown encoding":          Custom[*Lamp](lampResource).Encoded("cbor").Valid(),
		"metav1.ObjectMeta":         Custom[*naked](lampResource).Valid(),
		`plural ""`:                 Custom[*Lamp](object.Resource{Version: "v1", Kind: "Lamp"}).Valid(),
		`kind ""`:                   Unstructured(object.Resource{Version: "v1", Resource: "lamps"}).Valid(),
		"needs version, p":          Metadata(object.Resource{Resource: "lamps", Kind: "Lamp"}).Valid(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestEncodedIsACopy(t *testing.T) {
	pods := MustOf[*corev1.Pod]()
	if asJSON := pods.Encoded(JSON); asJSON.Encoding() != JSON || pods.Encoding() != Protobuf {
		t.Errorf("%s and %s", asJSON.Encoding(), pods.Encoding())
	}
}
