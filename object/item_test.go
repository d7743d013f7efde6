package object_test

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

var eventNames = map[object.EventType]string{
	object.Added: "ADDED", object.Modified: "MODIFIED", object.Deleted: "DELETED",
	object.Bookmark: "BOOKMARK", object.Failed: "ERROR",
}

// asleep is a pod at rest.
type asleep struct{ name string }

func (a asleep) Object() *corev1.Pod {
	p := new(corev1.Pod)
	p.Name = a.name
	return p
}

// Decoders cut names from one buffer with everything else.
func TestAnItemAtRestKeepsNothingOfItsObject(t *testing.T) {
	cut := func(text string) string { return text + "!" }
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = cut("shop"), cut("web"), object.UID(cut("u")), cut("7")
	before, err := object.ItemOf(object.Meta[*corev1.Pod](), pod)
	if err != nil {
		t.Fatal(err)
	}
	first, second := before, before
	first.Settle(asleep{"web"}, nil)
	second.Settle(asleep{"web"}, &first)
	for _, item := range []object.Item[*corev1.Pod]{first, second} {
		if item.Key != before.Key || item.UID != before.UID || item.Version != before.Version {
			t.Errorf("settled as %v %v %v", item.Key, item.UID, item.Version)
		}
		if item.Object != nil || item.Value().Name != "web" {
			t.Errorf("object %v, value %v", item.Object, item.Value())
		}
		for _, texts := range [][2]string{
			{item.Key.Namespace, pod.Namespace}, {item.Key.Name, pod.Name},
			{string(item.UID), string(pod.UID)}, {string(item.Version), pod.ResourceVersion},
		} {
			if unsafe.StringData(texts[0]) == unsafe.StringData(texts[1]) {
				t.Errorf("%q is the object's", texts[0])
			}
		}
	}
	if unsafe.StringData(first.Key.Namespace) != unsafe.StringData(second.Key.Namespace) {
		t.Error("two items of a namespace have one each")
	}
	if before.Value() != pod {
		t.Error("the value of a decoded item is not its object")
	}
}

func TestEventTypesAreSpeltAsTheProtocolDoes(t *testing.T) {
	for typ, name := range eventNames {
		if typ.String() != name || object.ParseEventType(name) != typ {
			t.Errorf("%d: String %q, ParseEventType(%q) = %d", typ, typ, name, object.ParseEventType(name))
		}
	}
}

func TestEveryOtherEventTypeIsUnknown(t *testing.T) {
	for _, s := range []string{"", "added", "Added", "ADDED ", "FAILED", "UNKNOWN", "PATCHED"} {
		if got := object.ParseEventType(s); got != object.Unknown {
			t.Errorf("ParseEventType(%q) = %v", s, got)
		}
	}
	for i := range 256 {
		typ := object.EventType(i)
		name, known := eventNames[typ]
		if !known {
			name = "UNKNOWN"
		}
		if typ.String() != name {
			t.Errorf("EventType(%d).String() = %q, want %q", i, typ, name)
		}
		if back := object.ParseEventType(typ.String()); known && back != typ || !known && back != object.Unknown {
			t.Errorf("EventType(%d) comes back as %d", i, back)
		}
	}
}

func TestItemOfTakesWhatTheAccessorKnows(t *testing.T) {
	got, err := object.ItemOf(object.Meta[*corev1.Pod](), pod)
	want := object.Item[*corev1.Pod]{Key: webKey, UID: "u-1", Version: "41", Object: pod}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got.Object != pod {
		t.Error("ItemOf copied the object")
	}

	bare, err := object.ItemOf(object.Keyed(object.RawKey), "shop/web")
	if diff := cmp.Diff(object.Item[string]{Key: webKey, Object: "shop/web"}, bare); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestItemOfReturnsTheAccessorsError(t *testing.T) {
	item, err := object.ItemOf(object.Any(), any(5))
	if !errors.Is(err, object.ErrNoMetadata) || !item.Key.IsZero() || item.Object != nil {
		t.Errorf("ItemOf = %+v, %v", item, err)
	}
}

func TestListOfIsEverythingAtAVersion(t *testing.T) {
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
	l, err := object.ListOf(object.Any(), "12", any(pod), any("no metadata"))
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
