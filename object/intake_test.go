package object_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
)

// encodedPod is a pod in an encoded form.
type encodedPod struct{ name string }

func (e encodedPod) Get() *corev1.Pod {
	p := new(corev1.Pod)
	p.Name = e.name
	return p
}

func podItem(t *testing.T) (*corev1.Pod, object.Item[*corev1.Pod]) {
	t.Helper()
	pod := &corev1.Pod{}
	// strings.Clone, because a decoder's strings share one buffer per object.
	pod.Namespace, pod.Name = strings.Clone("shop"), strings.Clone("web")
	pod.UID, pod.ResourceVersion = object.UID(strings.Clone("u")), strings.Clone("7")
	item, err := object.ItemOf(object.Meta[*corev1.Pod](), pod)
	if err != nil {
		t.Fatal(err)
	}
	return pod, item
}

func TestAnEncodedItemKeepsNothingOfItsObject(t *testing.T) {
	pod, item := podItem(t)
	before := item
	in := object.Intake[*corev1.Pod]{Encoder: object.Encoder[*corev1.Pod]{
		Encode: func(p *corev1.Pod, _ []byte) (object.Encoded[*corev1.Pod], error) { return encodedPod{p.Name}, nil },
	}}
	in.Prepare(&item)
	if item.Key != before.Key || item.UID != before.UID || item.Version != before.Version {
		t.Errorf("prepared as %v %v %v", item.Key, item.UID, item.Version)
	}
	if item.Object != nil || item.Get().Name != "web" {
		t.Errorf("object %v, value %v", item.Object, item.Get())
	}
	for _, texts := range [][2]string{
		{item.Key.Namespace, pod.Namespace}, {item.Key.Name, pod.Name},
		{string(item.UID), string(pod.UID)}, {string(item.Version), pod.ResourceVersion},
	} {
		if unsafe.StringData(texts[0]) == unsafe.StringData(texts[1]) {
			t.Errorf("%q is the object's", texts[0])
		}
	}
	if before.Get() != pod {
		t.Error("the value of a decoded item is not its object")
	}
}

func TestO04_ATransformErrorAffectsOnlyItsObject(t *testing.T) {
	for name, transform := range map[string]func(*corev1.Pod) (*corev1.Pod, error){
		"an error":        func(p *corev1.Pod) (*corev1.Pod, error) { return p, errors.New("no") },
		"nil":             func(*corev1.Pod) (*corev1.Pod, error) { return nil, nil },
		"a panic":         func(*corev1.Pod) (*corev1.Pod, error) { panic("no") },
		"another key":     func(p *corev1.Pod) (*corev1.Pod, error) { p.Name = "other"; return p, nil },
		"another UID":     func(p *corev1.Pod) (*corev1.Pod, error) { p.UID = "other"; return p, nil },
		"another version": func(p *corev1.Pod) (*corev1.Pod, error) { p.ResourceVersion = "8"; return p, nil },
	} {
		t.Run(name, func(t *testing.T) {
			_, item := podItem(t)
			in := object.Intake[*corev1.Pod]{Transform: transform, Accessor: object.Meta[*corev1.Pod](),
				Encoder: object.Encoder[*corev1.Pod]{Encode: func(*corev1.Pod, []byte) (object.Encoded[*corev1.Pod], error) {
					t.Error("an object whose transform failed was encoded")
					return nil, nil
				}}}
			in.Prepare(&item)
			if item.Err == nil || item.Object != nil || item.Key.Name != "web" || item.Version != "7" {
				t.Errorf("prepared as %+v", item)
			}
		})
	}
}

// The bytes of an object are those before the transform.
func TestATransformedObjectIsEncodedWithoutItsBytes(t *testing.T) {
	for _, transform := range []func(*corev1.Pod) (*corev1.Pod, error){nil, func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }} {
		var got string
		in := object.Intake[*corev1.Pod]{Transform: transform, Encoder: object.Encoder[*corev1.Pod]{
			Encode: func(_ *corev1.Pod, raw []byte) (object.Encoded[*corev1.Pod], error) {
				got = string(raw)
				return nil, nil
			},
		}}
		_, item := podItem(t)
		item.Raw = []byte("bytes")
		in.Prepare(&item)
		if (got == "bytes") != (transform == nil) || item.Raw != nil {
			t.Errorf("with a transform %t: encoded with %q, and %q is left", transform != nil, got, item.Raw)
		}
	}
}

func TestH08_AnItemIsPreparedOnce(t *testing.T) {
	calls := 0
	in := object.Intake[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) { calls++; return p, nil }}
	_, item := podItem(t)
	in.Prepare(&item)
	in.Prepare(&item)
	for _, skipped := range []object.Item[*corev1.Pod]{{Held: true}, {Err: errors.New("broken")}} {
		in.Prepare(&skipped)
	}
	if calls != 1 {
		t.Errorf("the transform ran %d times", calls)
	}
}

func TestTheZeroIntakeLeavesObjectsUnchanged(t *testing.T) {
	for _, in := range []*object.Intake[*corev1.Pod]{nil, {}} {
		pod, item := podItem(t)
		in.Prepare(&item)
		if item.Object != pod || item.Err != nil || in.Owned() || in.Holds(item.Key, item.UID, item.Version) {
			t.Errorf("prepared as %+v", item)
		}
	}
}

func TestKindNames(t *testing.T) {
	for kind, name := range map[object.Kind]string{
		0: "None", object.Added: "Added", object.Updated: "Updated", object.Deleted: "Deleted",
		object.Replaced: "Replaced", object.Synced: "Synced", 200: "None",
	} {
		if kind.String() != name {
			t.Errorf("%d is %q, want %q", kind, kind, name)
		}
	}
}
