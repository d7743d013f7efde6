package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func seeds(f *testing.F) {
	for _, s := range shapes() {
		f.Add(s.body)
	}
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\x0f"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
}

// openEnvelope agrees with apimachinery on every envelope that apimachinery accepts.
func FuzzEnvelope(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := openEnvelope(b)
		rest, ok := bytes.CutPrefix(b, magic)
		var want runtime.Unknown
		if !ok || want.Unmarshal(rest) != nil {
			return // openEnvelope may accept more; decoding the object decides
		}
		if err != nil {
			// Unknown field numbers are the only difference.
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if string(got.kind.kind) != want.Kind || string(got.kind.apiVersion) != want.APIVersion || !bytes.Equal(got.raw, want.Raw) {
			t.Errorf("got %s and %d bytes, want %s %s and %d", got.kind, len(got.raw), want.APIVersion, want.Kind, len(want.Raw))
		}
	})
}

// openWatchEvent agrees with apimachinery.
func FuzzWatchEvent(f *testing.F) {
	seeds(f)
	f.Add(append(protoField(1, []byte("ADDED")), protoField(2, protoField(1, wireBytes(wire.Protobuf, pod(1))))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, raw, err := openWatchEvent(b)
		var want metav1.WatchEvent
		if want.Unmarshal(b) != nil || err != nil {
			return
		}
		if string(typ) != want.Type || !bytes.Equal(raw, want.Object.Raw) {
			t.Errorf("got %q and %d bytes, want %q and %d", typ, len(raw), want.Type, len(want.Object.Raw))
		}
	})
}

// fuzzSource reads *body with small limits.
func fuzzSource(t testing.TB, e wire.Encoding, body *[]byte) *Source[*corev1.Pod] {
	c := bodyClient(t, mediaOf(e), func() io.Reader { return &choppy{b: *body, sizes: []int{1, 7, 64, 1000}} })
	return sourceOf(t, c, podsAs(e), Options{FrameLimit: 1 << 16, parallel: 2, window: 1 << 12})
}

// For any body of a list: no panic, no hang, and not more items than bytes. A complete list has
// the items that apimachinery decodes.
func fuzzList(f *testing.F, e wire.Encoding) {
	seeds(f)
	var body []byte
	src := fuzzSource(f, e, &body)
	f.Fuzz(func(t *testing.T, b []byte) {
		body = b
		checkAnyList(t, src, b)
	})
}

func checkAnyList(t testing.TB, src *Source[*corev1.Pod], b []byte) {
	held := func(key object.Key, _ object.UID, _ object.Version) bool { return len(key.Name)%2 == 1 }
	items, page, err := collect(src, held)
	if len(items) > len(b) {
		t.Fatalf("%d items out of %d bytes", len(items), len(b))
	}
	if err != nil {
		return
	}
	var want corev1.PodList
	if obj, _, err := wiretest.Codecs.UniversalDeserializer().Decode(b, nil, &want); err != nil || obj != runtime.Object(&want) {
		return // perhaps one of the items
	}
	if len(items) != len(want.Items) || string(page.Version) != want.ResourceVersion || page.Continue != want.Continue {
		t.Fatalf("%d items at %q, want %d at %q", len(items), page.Version, len(want.Items), want.ResourceVersion)
	}
	for i, item := range items {
		if w := want.Items[i]; item.Err == nil && (item.Key.Name != w.Name || item.Key.Namespace != w.Namespace || item.UID != w.UID) {
			t.Fatalf("item %d is called %v, want %s/%s", i, item.Key, w.Namespace, w.Name)
		}
	}
}

func FuzzProtobufList(f *testing.F) { fuzzList(f, wire.Protobuf) }

func FuzzJSONList(f *testing.F) { fuzzList(f, wire.JSON) }

// For any frames of a watch: no panic, and the watch ends.
func fuzzWatch(f *testing.F, e wire.Encoding) {
	seeds(f)
	var body []byte
	src := fuzzSource(f, e, &body)
	f.Fuzz(func(t *testing.T, b []byte) {
		body = b
		checkAnyWatch(t, src, b)
	})
}

func checkAnyWatch(t testing.TB, src *Source[*corev1.Pod], b []byte) {
	odd := func(key object.Key, _ object.UID, _ object.Version) bool { return len(key.Name)%2 == 1 }
	for _, held := range []object.Held{nil, odd} {
		st, err := src.Watch(context.Background(), object.WatchOptions{}, &object.Intake[*corev1.Pod]{Held: held})
		if err != nil {
			t.Fatal(err)
		}
		events, err := drain(st)
		st.Close()
		if err == nil || len(events) > len(b) {
			t.Fatalf("%d events out of %d bytes, ended with %v", len(events), len(b), err)
		}
	}
}

func FuzzProtobufWatch(f *testing.F) { fuzzWatch(f, wire.Protobuf) }

func FuzzJSONWatch(f *testing.F) { fuzzWatch(f, wire.JSON) }

// peek agrees with the decoded object, or fails.
func FuzzPeek(f *testing.F) {
	for _, e := range encodings {
		f.Add(wireBytes(e, pod(1)))
	}
	f.Add(wiretest.Must(pod(1).Marshal())(f))
	var none []byte
	sources := []*Source[*corev1.Pod]{fuzzSource(f, wire.Protobuf, &none), fuzzSource(f, wire.JSON, &none)}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, src := range sources {
			c, err := src.codecs.of(encodings[i])
			if err != nil {
				t.Fatal(err)
			}
			id, err := c.peek(b)
			if err != nil {
				continue
			}
			obj, err := c.decoder(true).Decode(b)
			if err != nil {
				continue
			}
			if string(id.name) != obj.Name || string(id.namespace) != obj.Namespace || string(id.uid) != string(obj.UID) || string(id.version) != obj.ResourceVersion {
				t.Errorf("%s: peeked at %s/%s, decoded %s/%s", encodings[i], id.namespace, id.name, obj.Namespace, obj.Name)
			}
		}
	})
}

// Valid bodies with some bytes changed, removed or repeated are read safely. This is the short
// form of the fuzz targets for every test run.
func TestCorruptBodiesAreReadSafely(t *testing.T) {
	var body []byte
	sources := map[string]*Source[*corev1.Pod]{
		wiretest.Protobuf: fuzzSource(t, wire.Protobuf, &body), wiretest.JSON: fuzzSource(t, wire.JSON, &body),
	}
	all := shapes()
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(all).Draw(rt, "shape")
		b := bytes.Clone(s.body)
		for range rapid.IntRange(1, 4).Draw(rt, "damages") {
			if len(b) == 0 {
				break
			}
			at := rapid.IntRange(0, len(b)-1).Draw(rt, "at")
			to := min(len(b), at+rapid.IntRange(0, 40).Draw(rt, "length"))
			switch rapid.IntRange(0, 3).Draw(rt, "damage") {
			case 0:
				b[at] = rapid.Byte().Draw(rt, "byte")
			case 1:
				b = slices.Delete(b, at, to)
			case 2:
				b = slices.Insert(b, at, bytes.Clone(b[at:to])...)
			case 3:
				b = b[:at]
			}
		}
		body = b
		checkAnyList(t, sources[s.media], b)
		checkAnyWatch(t, sources[s.media], b)
	})
}
