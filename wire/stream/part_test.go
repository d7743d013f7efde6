package stream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// arrived is an object as it was received, with the part of it that was decoded.
type arrived[T any] struct {
	part   T
	raw    []byte
	source *Source[T]
}

func (r arrived[T]) Get() T {
	obj, err := r.source.Decode(r.raw)
	if err != nil {
		panic(err)
	}
	return obj
}

// receiving returns an intake that encodes objects as they are received.
func receiving[T any](s *Source[T], reads ...object.FieldPath) *object.Intake[T] {
	return &object.Intake[T]{Encoder: object.Encoder[T]{
		Reads: append([]object.FieldPath{}, reads...),
		Encode: func(part T, raw []byte) (object.Encoded[T], error) {
			if raw == nil {
				return nil, nil
			}
			var of T
			if o, ok := any(part).(runtime.Object); ok {
				of = o.DeepCopyObject().(T) // the source may use the memory of the part again
			}
			return arrived[T]{of, bytes.Clone(raw), s}, nil
		},
	}}
}

// Of objects that are encoded, only the fields are decoded that the encoder reads. The bytes
// lack dropped fields, and decode to what the object would have been.
func TestOnlyWhatAnEncoderReadsIsDecoded(t *testing.T) {
	node := object.FieldPath{"spec", "nodeName"}
	for _, e := range encodings {
		for _, drop := range [][]object.FieldPath{nil, {object.ManagedFields, {"metadata", "annotations", "example.com/note"}}} {
			opts := Options{Drop: drop, parallel: 2}
			want, _, err := collect(bytesSource(t, e, wireBytes(e, podList(300)), opts), nil)
			if err != nil {
				t.Fatal(err)
			}
			check := func(i int, item *object.Item[*corev1.Pod]) {
				t.Helper()
				got, ok := item.Encoded.(arrived[*corev1.Pod])
				if !ok || item.Raw != nil || item.Key.Name != pod(i).Name || item.UID != pod(i).UID || string(item.Version) != pod(i).ResourceVersion {
					t.Fatalf("%s: item %+v", e, item)
				}
				if got.part.Spec.NodeName != pod(i).Spec.NodeName || e == wire.Protobuf && got.part.Status.PodIP != "" {
					t.Errorf("%s: the part is %v", e, got.part)
				}
				if has := bytes.Contains(got.raw, []byte("kubelet")) || bytes.Contains(got.raw, []byte("nnn")); has != (drop == nil) && i > 2 {
					t.Errorf("%s: dropping %v, but the fields are in the bytes: %t", e, drop, has)
				}
				if diff := cmp.Diff(want[i].Object, got.Get()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", e, diff)
				}
			}
			s := bytesSource(t, e, wireBytes(e, podList(300)), opts)
			i := 0
			if _, err := s.List(t.Context(), object.ListOptions{}, receiving(s, node), func(item object.Item[*corev1.Pod]) error {
				check(i, &item)
				i++
				return nil
			}); err != nil || i != 300 {
				t.Fatal(i, err)
			}
			s = bytesSource(t, e, podEvents(e, 50), opts)
			st, err := s.Watch(t.Context(), object.WatchOptions{}, receiving(s, node))
			if err != nil {
				t.Fatal(err)
			}
			events, err := drain(st)
			if err != io.EOF || len(events) != 50 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			for i := range events {
				check(i, &events[i].Item)
			}
		}
	}
}

func TestOnlyWhatAnEncoderReadsOfUnstructuredObjectsIsDecoded(t *testing.T) {
	body := wireBytes(wire.JSON, widgetList(20))
	s := sourceOf(t, bodyClient(t, wiretest.JSON, func() io.Reader { return bytes.NewReader(body) }), wire.Unstructured(widgetResource), Options{})
	i := 0
	_, err := s.List(t.Context(), object.ListOptions{}, receiving(s, object.FieldPath{"spec", "tags"}), func(item object.Item[*unstructured.Unstructured]) error {
		got, ok := item.Encoded.(arrived[*unstructured.Unstructured])
		if !ok {
			t.Fatalf("item %+v", item)
		}
		if diff := cmp.Diff(map[string]any{"tags": []any{"a", "b"}}, got.part.Object["spec"]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(widget(i), got.Get()); diff != "" {
			t.Error(diff)
		}
		i++
		return nil
	})
	if err != nil || i != 20 {
		t.Fatal(i, err)
	}
}

// L11: what no index reads must be valid too, because the mirror decodes it later.
func TestL11_AnObjectThatIsInvalidWhereItIsNotReadIsQuarantined(t *testing.T) {
	bad := append(wiretest.Must((&corev1.Pod{ObjectMeta: pod(7).ObjectMeta}).Marshal())(t), 0x12, 0x03, 0x0a, 0x7f, 0x01)
	list := append(protoField(2, wiretest.Must(pod(1).Marshal())(t)), protoField(2, bad)...)
	kind := protoField(1, append(protoField(1, []byte("v1")), protoField(2, []byte("PodList"))...))
	s := bytesSource(t, wire.Protobuf, append(append([]byte("k8s\x00"), kind...), protoField(2, list)...), Options{})
	var items []object.Item[*corev1.Pod]
	_, err := s.List(t.Context(), object.ListOptions{}, receiving(s), func(item object.Item[*corev1.Pod]) error {
		items = append(items, item)
		return nil
	})
	if err != nil || len(items) != 2 || items[0].Encoded == nil || items[1].Err == nil || items[1].Encoded != nil || items[1].Key.Name != pod(7).Name {
		t.Fatalf("%v, %+v", err, items)
	}
	invalid := strings.Replace(string(wireBytes(wire.JSON, widgetList(2))), `"size":1`, `"size":1e999`, 1)
	u := sourceOf(t, bodyClient(t, wiretest.JSON, func() io.Reader { return strings.NewReader(invalid) }), wire.Unstructured(widgetResource), Options{})
	var widgets []object.Item[*unstructured.Unstructured]
	_, err = u.List(t.Context(), object.ListOptions{}, receiving(u), func(item object.Item[*unstructured.Unstructured]) error {
		widgets = append(widgets, item)
		return nil
	})
	if err != nil || len(widgets) != 2 || widgets[0].Encoded == nil || widgets[1].Err == nil || widgets[1].Key.Name != "w-00001" {
		t.Fatalf("%v, %+v", err, widgets)
	}
}

// An object whose part the encoder refuses is decoded and offered again, and a transform gets whole
// objects and no bytes.
func TestObjectsAreDecodedWholeForATransformAndAfterARefusal(t *testing.T) {
	s := bytesSource(t, wire.Protobuf, wireBytes(wire.Protobuf, podList(3)), Options{})
	var whole, parts atomic.Int32
	count := func(p *corev1.Pod, _ []byte) (object.Encoded[*corev1.Pod], error) {
		if p.Status.PodIP == "" {
			parts.Add(1)
		} else {
			whole.Add(1)
		}
		return nil, nil
	}
	in := &object.Intake[*corev1.Pod]{Encoder: object.Encoder[*corev1.Pod]{Encode: count, Reads: []object.FieldPath{}}}
	deliver := func(item object.Item[*corev1.Pod]) error {
		if item.Object == nil || item.Object.Status.PodIP == "" {
			return errors.New("a part was delivered")
		}
		return nil
	}
	if _, err := s.List(t.Context(), object.ListOptions{}, in, deliver); err != nil || whole.Load() != 3 || parts.Load() != 3 {
		t.Error(err, whole.Load(), parts.Load())
	}
	in.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	if _, err := s.List(t.Context(), object.ListOptions{}, in, deliver); err != nil || whole.Load() != 6 || parts.Load() != 3 {
		t.Error(err, whole.Load(), parts.Load())
	}
}
