package wire

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestResultInto(t *testing.T) {
	for _, contentType := range []string{typeJSON, typeProtobuf} {
		res := &Result{secrets: &secrets{}, data: wiretest.Encode(contentType, webPod())}
		// Old contents are removed in both encodings.
		pod := webPod()
		pod.Labels = map[string]string{"old": "label"}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "old"})
		if err := res.Into(pod); err != nil || pod.Name != "web" || len(pod.Spec.Containers) != 1 || pod.Labels != nil {
			t.Errorf("%s: %+v, %v", contentType, pod, err)
		}
		node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if err := res.Into(node); !errors.Is(err, object.ErrWrongKind) {
			t.Errorf("%s: a pod becomes a node: %v", contentType, err)
		}
	}
	res := &Result{secrets: &secrets{}, data: []byte(`{"major":"1","minor":"35"}`)}
	var version struct{ Minor string }
	var u unstructured.Unstructured
	if err := res.Into(&version); err != nil || version.Minor != "" { // names are case-sensitive
		t.Errorf("%+v, %v", version, err)
	}
	if err := res.Into(&u); err != nil || u.Object["minor"] != "35" {
		t.Errorf("%+v, %v", u, err)
	}
	if err := (&Result{secrets: &secrets{}, data: []byte("ok"), call: Call{Verb: "GET", Path: "/healthz"}}).Into(&u); err == nil || !strings.HasPrefix(err.Error(), "GET /healthz: ") {
		t.Errorf("text becomes an object: %v", err)
	}
}

// FuzzDecodeObject checks that no input makes decoding panic.
func FuzzDecodeObject(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`))
	f.Add([]byte("k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\xff\xff"))
	f.Add([]byte(string(wiretest.Encode(typeProtobuf, webPod()))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var pod corev1.Pod
		if err := decodeObject(data, &pod, podResource.GVK()); err != nil {
			return
		}
		contentType, again, err := encodeObject(&pod, podResource.GVK(), Protobuf)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var back corev1.Pod
		if err := decodeObject(again, &back, podResource.GVK()); err != nil {
			t.Fatalf("what was written as %s cannot be read: %v", contentType, err)
		}
	})
}

func TestProtobufIsEncodedAsByApimachinery(t *testing.T) {
	_, data, err := encodeObject(webPod(), podResource.GVK(), Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(wiretest.Encode(typeProtobuf, webPod())); string(data) != want {
		t.Errorf("%q\nwant %q", data, want)
	}
	if _, _, err := encodeObject(&Lamp{}, lampResource.GVK(), Protobuf); err == nil {
		t.Error("a type without protobuf is written")
	}
	if _, _, err := encodeObject(&naked{}, lampResource.GVK(), JSON); err == nil {
		t.Error("a type without a kind is written")
	}
}
