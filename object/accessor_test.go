package object_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

var (
	webKey    = object.Key{Namespace: "shop", Name: "web"}
	webLabels = map[string]string{"app": "web", "tier": "front"}
	webMeta   = metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "41", Labels: webLabels,
	}
	pod     = &corev1.Pod{ObjectMeta: webMeta}
	node    = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u-2", ResourceVersion: "7"}}
	partial = &metav1.PartialObjectMetadata{ObjectMeta: webMeta}
	untyped = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "shop", "name": "web", "uid": "u-1", "resourceVersion": "41",
			"labels": map[string]any{"app": "web", "tier": "front"},
		},
	}}
)

// byAccessor has metadata but does not implement metav1.Object.
type byAccessor struct{ meta *metav1.ObjectMeta }

func (b byAccessor) GetObjectMeta() metav1.Object {
	if b.meta == nil {
		return nil
	}
	return b.meta
}

func checkWeb[T any](t *testing.T, acc object.Accessor[T], v T) {
	t.Helper()
	if err := acc.Valid(); err != nil {
		t.Errorf("%T: Valid: %v", v, err)
	}
	if k, err := acc.Key(v); err != nil || k != webKey {
		t.Errorf("%T: Key = %v, %v", v, k, err)
	}
	if got := acc.UIDOf(v); got != "u-1" {
		t.Errorf("%T: UID = %q", v, got)
	}
	if got := acc.VersionOf(v); got != "41" {
		t.Errorf("%T: Version = %q", v, got)
	}
	if got := acc.LabelsOf(v); !maps.Equal(got, webLabels) {
		t.Errorf("%T: Labels = %v", v, got)
	}
}

func TestMetaReadsEveryKindOfKubernetesObject(t *testing.T) {
	checkWeb(t, object.Meta[*corev1.Pod](), pod)
	checkWeb(t, object.Meta[*unstructured.Unstructured](), untyped)
	checkWeb(t, object.Meta[*metav1.PartialObjectMetadata](), partial)
	checkWeb(t, object.Meta[metav1.Object](), metav1.Object(pod))
}

func TestMetaOfAClusterScopedObjectHasNoNamespace(t *testing.T) {
	acc := object.Meta[*corev1.Node]()
	if k, err := acc.Key(node); err != nil || k != (object.Key{Name: "node-1"}) {
		t.Errorf("Key = %#v, %v", k, err)
	}
	if acc.LabelsOf(node) != nil {
		t.Errorf("Labels = %v", acc.LabelsOf(node))
	}
}

func TestKeyedReadsOnlyTheKey(t *testing.T) {
	acc := object.Keyed(object.RawKey)
	if err := acc.Valid(); err != nil {
		t.Fatal(err)
	}
	if k, err := acc.Key("shop/web"); err != nil || k != webKey {
		t.Errorf("Key = %v, %v", k, err)
	}
	if acc.UIDOf("shop/web") != "" || acc.VersionOf("shop/web") != "" || acc.LabelsOf("shop/web") != nil {
		t.Error("UID, version or labels out of nowhere")
	}
}

func TestAnAccessorWithoutKeyIsNotValid(t *testing.T) {
	err := object.Accessor[int]{UID: func(int) object.UID { return "x" }}.Valid()
	want := "object: accessor without a Key function; use object.Meta for Kubernetes objects or object.Keyed for others"
	if err == nil || err.Error() != want {
		t.Errorf("Valid() = %v\nwant %s", err, want)
	}
}

func TestKeyOf(t *testing.T) {
	for _, v := range []any{webKey, pod, untyped, partial, byAccessor{&webMeta}} {
		if k, err := object.KeyOf(v); err != nil || k != webKey {
			t.Errorf("KeyOf(%T) = %v, %v", v, k, err)
		}
	}
}

// password is a value that must never be printed.
type password struct{ Secret string }

func (p password) String() string { return p.Secret }

func TestKeyErrorNamesTheTypeAndNeverTheValue(t *testing.T) {
	const secret = "hunter2"
	for _, v := range []any{password{secret}, &password{secret}, secret, []byte(secret), map[string]string{"k": secret}, byAccessor{}, nil} {
		k, err := object.KeyOf(v)
		var keyErr *object.KeyError
		if !errors.As(err, &keyErr) || !errors.Is(err, object.ErrNoMetadata) {
			t.Errorf("%T: %v; want a KeyError because of ErrNoMetadata", v, err)
			continue
		}
		if !k.IsZero() {
			t.Errorf("%T: KeyOf returned %v with the error", v, k)
		}
		want := fmt.Sprintf("object: no key for a value of type %T: it has no object metadata; pass API objects as pointers", v)
		wrapped := fmt.Errorf("while queueing: %w", err)
		if err.Error() != want || strings.Contains(fmt.Sprintf("%v %+v %s", err, err, wrapped), secret) {
			t.Errorf("%T:\n got %v\nwant %s", v, err, want)
		}
	}
}

func TestKeyErrorKeepsTheValue(t *testing.T) {
	v := &password{"hunter2"}
	_, err := object.KeyOf(v)
	var keyErr *object.KeyError
	if !errors.As(err, &keyErr) || keyErr.Value != any(v) || keyErr.Unwrap() != object.ErrNoMetadata {
		t.Errorf("%#v", keyErr)
	}
}
