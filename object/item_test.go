package object_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

func TestItemOfReadsTheAccessor(t *testing.T) {
	got, err := object.ItemOf(object.Meta[*corev1.Pod](), pod)
	want := object.Item[*corev1.Pod]{Key: webKey, UID: "u-1", Version: "41", Value: object.Decoded(pod)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got.Object != pod {
		t.Error("ItemOf copied the object")
	}

	bare, err := object.ItemOf(object.Keyed(object.RawKey), "shop/web")
	if diff := cmp.Diff(object.Item[string]{Key: webKey, Value: object.Decoded("shop/web")}, bare); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestItemOfReturnsTheAccessorsError(t *testing.T) {
	item, err := object.ItemOf(object.Accessor[any]{Key: object.KeyOf}, any(5))
	if !errors.Is(err, object.ErrNoMetadata) || !item.Key.IsZero() || item.Object != nil {
		t.Errorf("ItemOf = %+v, %v", item, err)
	}
}

func TestListOfHasEveryItemAndTheVersion(t *testing.T) {
	acc := object.Keyed(object.RawKey)
	l, err := object.ListOf(acc, "12", "a/x", "b/y")
	if err != nil {
		t.Fatal(err)
	}
	if l.Mark != (object.Mark{Scope: object.Everything, Version: "12"}) {
		t.Errorf("Mark = %+v", l.Mark)
	}
	var keys []string
	for _, item := range l.Items {
		keys = append(keys, item.Key.String())
	}
	if !slices.Equal(keys, []string{"a/x", "b/y"}) {
		t.Errorf("keys = %v", keys)
	}

	empty, err := object.ListOf(acc, "13")
	if err != nil || len(empty.Items) != 0 || empty.Version != "13" {
		t.Errorf("an empty list: %+v, %v", empty, err)
	}
}

func TestListOfIsAllOrNothing(t *testing.T) {
	l, err := object.ListOf(object.Accessor[any]{Key: object.KeyOf}, "12", any(pod), any("no metadata"))
	if !errors.Is(err, object.ErrNoMetadata) || l.Items != nil || l.Version != "" {
		t.Errorf("ListOf = %+v, %v", l, err)
	}
}

func TestResourceNames(t *testing.T) {
	deployments := object.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	if got, want := deployments.GVR(), (schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); got != want {
		t.Errorf("GVR = %v", got)
	}
	if got, want := deployments.GVK(), (schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}); got != want {
		t.Errorf("GVK = %v", got)
	}
	for want, r := range map[string]object.Resource{
		"deployments.apps":              deployments,
		"pods":                          {Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
		"widgets.example.com":           {Group: "example.com", Version: "v1beta1", Resource: "widgets"},
		"leases.coordination.k8s.io":    {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		"customresources.a.b.c.d.e.f.g": {Group: "a.b.c.d.e.f.g", Resource: "customresources"},
	} {
		if r.String() != want {
			t.Errorf("String = %q, want %q", r, want)
		}
	}
}
