package wire_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

var podResource = object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}

func ExampleLike() {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	obj, err := scheme.New(podResource.GVK()) // its type is known only now
	if err != nil {
		panic(err)
	}
	pods := wire.Like(podResource, obj)
	fmt.Println(pods.Resource, pods.Type(), pods.Encoding(), pods.Valid())
	// Output:
	// pods *v1.Pod protobuf <nil>
}

func TestLikeChoosesTheEncodingOfTheType(t *testing.T) {
	widget := object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"}
	for _, c := range []struct {
		res  object.Resource
		obj  runtime.Object
		want wire.Encoding
	}{
		{podResource, &corev1.Pod{}, wire.Protobuf},
		{podResource, &unstructured.Unstructured{}, wire.JSON},
		{podResource, &metav1.PartialObjectMetadata{}, wire.Protobuf},
		{widget, &corev1.Pod{}, wire.JSON}, // a custom resource with the type of a built-in one
	} {
		r := wire.Like(c.res, c.obj)
		if r.Encoding() != c.want || r.Valid() != nil {
			t.Errorf("%s as %T: %s, %v; want %s", c.res, c.obj, r.Encoding(), r.Valid(), c.want)
		}
		if got := fmt.Sprintf("%T", r.New()); got != fmt.Sprintf("%T", c.obj) {
			t.Errorf("New returns a %s", got)
		}
	}
	if err := wire.Like[runtime.Object](podResource, nil).Valid(); err == nil {
		t.Error("a resource without a type is valid")
	}
	if err := wire.Like[runtime.Object](podResource, &metav1.Status{}).Valid(); err == nil {
		t.Error("a resource of objects without metadata is valid")
	}
}
