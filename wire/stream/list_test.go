package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestListDecodesAsClientGoDoes(t *testing.T) {
	list := podList(100)
	for _, protocol := range protocols {
		for _, e := range encodings {
			t.Run(protocol+" "+string(e), func(t *testing.T) {
				body := wireBytes(e, list)
				c := serveOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", mediaOf(e))
					w.Write(body)
				})
				items, page, err := collect(sourceOf(t, c, podsAs(e), Options{}), nil)
				if err != nil {
					t.Fatal(err)
				}
				checkPods(t, items, list.Items)
				if page != (object.Page{Version: "90000"}) {
					t.Errorf("page %+v", page)
				}
			})
		}
	}
}

func TestListAcceptsJSONForProtobuf(t *testing.T) {
	list := podList(3)
	c := bodyClient(t, wiretest.JSON, func() io.Reader { return bytes.NewReader(wireBytes(wire.JSON, list)) })
	items, _, err := collect(sourceOf(t, c, podsAs(wire.Protobuf), Options{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkPods(t, items, list.Items)
}

func TestListDecodesUnstructuredAsApimachineryDoes(t *testing.T) {
	for name, body := range map[string][]byte{
		"custom resources": wireBytes(wire.JSON, widgetList(120)),
		"built-in kind":    wireBytes(wire.JSON, podList(20)), // its items have no kind
	} {
		t.Run(name, func(t *testing.T) {
			want := decodeUnstructured(t, body)
			res := widgetResource
			if name == "built-in kind" {
				res = podResource
			}
			c := bodyClient(t, wiretest.JSON, func() io.Reader { return bytes.NewReader(body) })
			items, page, err := collect(sourceOf(t, c, wire.Unstructured(res), Options{}), nil)
			if err != nil || len(items) != len(want.Items) || string(page.Version) != want.GetResourceVersion() {
				t.Fatalf("%d items at %s, err %v", len(items), page.Version, err)
			}
			for i, item := range items {
				if diff := cmp.Diff(want.Items[i].Object, item.Object.Object); diff != "" {
					t.Fatalf("item %d (-want +got):\n%s", i, diff)
				}
				if item.Key.Name != want.Items[i].GetName() {
					t.Errorf("item %d is called %v", i, item.Key)
				}
			}
		})
	}
}

func TestListOfMetadataOnly(t *testing.T) {
	partial := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "90000"}}
	for i := range 5 {
		m := metav1.PartialObjectMetadata{ObjectMeta: pod(i).ObjectMeta}
		m.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		m.APIVersion = "meta.k8s.io/v1"
		partial.Items = append(partial.Items, m)
	}
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	partial.APIVersion = "meta.k8s.io/v1"
	whole := podList(5) // from a server that cannot omit anything
	for _, e := range encodings {
		for name, body := range map[string][]byte{"partial": wireBytes(e, partial), "whole": wireBytes(e, whole)} {
			t.Run(string(e)+" "+name, func(t *testing.T) {
				var accept string
				c := inMemory(t, func(req *http.Request) (*http.Response, error) {
					accept = req.Header.Get("Accept")
					return wiretest.Response(req, 200, string(body), "Content-Type", mediaOf(e)), nil
				})
				items, _, err := collect(sourceOf(t, c, wire.Metadata(podResource), Options{}), nil)
				if err != nil || len(items) != 5 {
					t.Fatalf("%d items, err %v", len(items), err)
				}
				for i, item := range items {
					want := &metav1.PartialObjectMetadata{ObjectMeta: pod(i).ObjectMeta}
					if diff := cmp.Diff(want, item.Object); diff != "" {
						t.Errorf("item %d (-want +got):\n%s", i, diff)
					}
				}
				const as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
				if accept != wiretest.Protobuf+as+","+wiretest.JSON+as+","+wiretest.JSON {
					t.Errorf("accept %s", accept)
				}
			})
		}
	}
}

func TestListDropsFields(t *testing.T) {
	for _, e := range encodings {
		src := bytesSource(t, e, wireBytes(e, podList(3)), Options{
			Drop: []object.FieldPath{object.ManagedFields, {"metadata", "annotations", "example.com/note"}, {"spec", "containers", "env"}},
		})
		items, _, err := collect(src, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := podList(3)
		for i := range want.Items {
			want.Items[i].ManagedFields = nil
			want.Items[i].Annotations = nil
			want.Items[i].Spec.Containers[0].Env = nil
		}
		for i := range items {
			if len(items[i].Object.Annotations) == 0 {
				items[i].Object.Annotations = nil // empty or nil, depending on the decoder
			}
		}
		checkPods(t, items, want.Items)
	}
}

// L08: the list's metadata may come before or after its items, in protobuf too.
func TestL08_MetadataBeforeOrAfterItems(t *testing.T) {
	item := strings.TrimSuffix(string(wireBytes(wire.JSON, pod(1))), "\n")
	for name, body := range map[string]string{
		"first":    `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"c","remainingItemCount":3},"items":[` + item + `]}`,
		"last":     `{"apiVersion":"v1","items":[` + item + `],"kind":"PodList","metadata":{"resourceVersion":"5","continue":"c","remainingItemCount":3}}`,
		"backward": ` { "items" : [ ` + item + ` ] , "metadata":{"resourceVersion":"5","continue":"c","remainingItemCount":3}, "more":[{}], "kind":"PodList","apiVersion":"v1"} ` + "\n",
	} {
		items, page, err := collect(bytesSource(t, wire.JSON, []byte(body), Options{}), nil)
		if err != nil || page != (object.Page{Version: "5", Continue: "c", Remaining: 3}) {
			t.Errorf("%s: page %+v, err %v", name, page, err)
			continue
		}
		checkPods(t, items, []corev1.Pod{*pod(1)})
	}

	meta := wiretest.Must((&metav1.ListMeta{ResourceVersion: "5", Continue: "c"}).Marshal())(t)
	one := wiretest.Must(pod(1).Marshal())(t)
	list := protoField(2, one)
	list = append(list, protoField(9, []byte("unknown"))...)
	list = append(list, protoField(1, meta)...)
	list = append(list, protoField(2, one)...)
	envelope := append([]byte("k8s\x00"), protoField(7, []byte("unknown"))...)
	envelope = append(envelope, protoField(1, append(protoField(1, []byte("v1")), protoField(2, []byte("PodList"))...))...)
	envelope = append(envelope, protoField(2, list)...)
	envelope = append(envelope, protoField(4, nil)...)
	items, page, err := collect(bytesSource(t, wire.Protobuf, envelope, Options{}), nil)
	if err != nil || page != (object.Page{Version: "5", Continue: "c"}) {
		t.Fatalf("protobuf: page %+v, err %v", page, err)
	}
	checkPods(t, items, []corev1.Pod{*pod(1), *pod(1)})
}

// L10: a truncated list is an error, wherever it is truncated, and never a shorter list.
func TestL10_TruncationAnywhereIsAnError(t *testing.T) {
	for _, e := range encodings {
		list := podList(3)
		body := wireBytes(e, list)
		complete := len(body)
		if e == wire.JSON {
			complete-- // the newline at the end is optional
		} else {
			complete -= 4 // so are two empty fields after the list
		}
		var n int
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return bytes.NewReader(body[:n]) }), podsAs(e), Options{parallel: 3})
		for n = range complete {
			items, page, err := collect(src, nil)
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("%s: %d of %d bytes gave %d items at %q and error %v", e, n, len(body), len(items), page.Version, err)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s: %d of %d bytes: %v is not an io.ErrUnexpectedEOF", e, n, len(body), err)
			}
			checkPods(t, items, list.Items[:len(items)])
		}
	}
}

func TestL10_ALostConnectionIsAnError(t *testing.T) {
	for _, protocol := range protocols {
		for _, e := range encodings {
			body := wireBytes(e, podList(200))
			c := serveOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", mediaOf(e))
				w.Write(body[:len(body)/2])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			items, _, err := collect(sourceOf(t, c, podsAs(e), Options{}), nil)
			if err == nil {
				t.Errorf("%s %s: %d items and no error", protocol, e, len(items))
			}
		}
	}
}

func TestL10_InvalidBytesAreCorrupt(t *testing.T) {
	good := wireBytes(wire.Protobuf, podList(2))
	kind := protoField(1, append(protoField(1, []byte("v1")), protoField(2, []byte("PodList"))...))
	body := func(fields ...[]byte) []byte { return append([]byte("k8s\x00"), bytes.Join(fields, nil)...) }
	for name, b := range map[string][]byte{
		"no magic":                  good[1:],
		"other magic":               append([]byte("k8s\x01"), good[4:]...),
		"no list":                   body(kind),
		"two lists":                 body(kind, protoField(2, nil), protoField(2, nil)),
		"item longer than the list": body(kind, protoField(2, []byte{0x12, 0x7f, 1, 2})),
		"field over the list's end": body(kind, protoField(2, []byte{0x18}), []byte{1}),
		"field number 0":            body(kind, protoField(2, []byte{0x02, 1, 1})),
		"a group in the list":       body(kind, protoField(2, []byte{0x1b, 0x1c})),
		"items that are a number":   body(kind, protoField(2, []byte{0x10, 1})),
		"endless number":            body(kind, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
		"absurd length":             body(kind, []byte("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
		"broken metadata":           body(kind, protoField(2, protoField(1, []byte{0xff}))),
		"item over the limit":       body(kind, protoField(2, protoField(2, make([]byte, 2<<10)))),
	} {
		_, _, err := collect(bytesSource(t, wire.Protobuf, b, Options{FrameLimit: 1 << 10}), nil)
		if !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("protobuf, %s: %v", name, err)
		}
	}
	const head = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"}`
	for name, b := range map[string]string{
		"no items":               head + `}`,
		"items that are no list": head + `,"items":{}}`,
		"something behind":       head + `,"items":[]} {}`,
		"metadata that is text":  `{"kind":"PodList","apiVersion":"v1","metadata":"5","items":[]}`,
		"kind that is a number":  `{"kind":5,"apiVersion":"v1","items":[]}`,
		"no comma":               head + `"items":[]}`,
		"an array":               `[]`,
		"item over the limit":    head + `,"items":["` + strings.Repeat("x", 2<<10) + `"]}`,
	} {
		_, _, err := collect(bytesSource(t, wire.JSON, []byte(b), Options{FrameLimit: 1 << 10}), nil)
		if !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("JSON, %s: %v", name, err)
		}
	}
}

// L11: an object that cannot be decoded is delivered with its error, and the list continues.
func TestL11_OneBadItemDoesNotStopTheList(t *testing.T) {
	bad := append(wiretest.Must((&corev1.Pod{ObjectMeta: pod(7).ObjectMeta}).Marshal())(t), 0x12, 0x03, 0x0a, 0x7f, 0x01)
	list := append(protoField(2, wiretest.Must(pod(1).Marshal())(t)), protoField(2, bad)...)
	list = append(list, protoField(2, wiretest.Must(pod(2).Marshal())(t))...)
	kind := protoField(1, append(protoField(1, []byte("v1")), protoField(2, []byte("PodList"))...))
	badJSON := strings.Replace(string(wireBytes(wire.JSON, pod(7))), `"nodeName":"node-0"`, `"nodeName":{"no":1}`, 1)
	for e, body := range map[wire.Encoding][]byte{
		wire.Protobuf: append(append([]byte("k8s\x00"), kind...), protoField(2, list)...),
		wire.JSON: []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` +
			string(wireBytes(wire.JSON, pod(1))) + `,` + badJSON + `,` + string(wireBytes(wire.JSON, pod(2))) + `]}`),
	} {
		items, _, err := collect(bytesSource(t, e, body, Options{}), nil)
		if err != nil || len(items) != 3 {
			t.Fatalf("%s: %d items, err %v", e, len(items), err)
		}
		checkPods(t, []object.Item[*corev1.Pod]{items[0], items[2]}, []corev1.Pod{*pod(1), *pod(2)})
		q := items[1]
		if q.Err == nil || q.Object != nil || len(q.Raw) == 0 || q.Key.Name != "web-00007" || q.UID != pod(7).UID || q.Version != "1007" {
			t.Errorf("%s: quarantined item %+v", e, q)
		}
	}
}

// L12: a wrong kind is an error, and no item is delivered.
func TestL12_WrongKindDeliversNothing(t *testing.T) {
	services := &corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}}
	table := &metav1.Table{Rows: []metav1.TableRow{{Cells: []any{"x"}}}}
	for name, c := range map[string]struct {
		media, got string
		body       []byte
	}{
		"another list in protobuf": {wiretest.Protobuf, "v1, Kind=ServiceList", wireBytes(wire.Protobuf, services)},
		"another list in JSON":     {wiretest.JSON, "v1, Kind=ServiceList", wireBytes(wire.JSON, services)},
		"one object":               {wiretest.Protobuf, "v1, Kind=Pod", wireBytes(wire.Protobuf, pod(1))},
		"a Table":                  {wiretest.JSON, "meta.k8s.io/v1, Kind=Table", wireBytes(wire.JSON, table)},
		"a kind that comes late":   {wiretest.JSON, "example.com/v1, Kind=Widget", wireBytes(wire.JSON, widgetList(2))},
		"no kind":                  {wiretest.JSON, "no kind", []byte(`{"items":[]}`)},
		"no kind in protobuf":      {wiretest.Protobuf, "no kind", []byte("k8s\x00\x12\x00")},
		"a login page":             {"text/html; charset=utf-8", "content type text/html", []byte("<html>")},
		"a successful Status":      {wiretest.JSON, "v1, Kind=Status", wireBytes(wire.JSON, &metav1.Status{Status: "Success"})},
	} {
		t.Run(name, func(t *testing.T) {
			src := sourceOf(t, bodyClient(t, c.media, func() io.Reader { return bytes.NewReader(c.body) }), podsAs(wire.Protobuf), Options{})
			items, _, err := collect(src, nil)
			var wrong *object.WrongKindError
			if !errors.As(err, &wrong) || !errors.Is(err, object.ErrWrongKind) || len(items) > 0 {
				t.Fatalf("%d items, err %v", len(items), err)
			}
			if wrong.Got != c.got || !strings.HasPrefix(wrong.Want, "v1, Kind=Pod") {
				t.Errorf("got %q, want %q", wrong.Got, wrong.Want)
			}
		})
	}
}

func TestL12_AStatusIsReturnedAsAnError(t *testing.T) {
	status := apierrors.NewResourceExpired("too old").ErrStatus
	for _, e := range encodings {
		items, _, err := collect(bytesSource(t, e, wireBytes(e, &status), Options{}), nil)
		var refused *wire.Error
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &refused) || refused.Code != 410 || refused.Verb != "list" || len(items) > 0 {
			t.Errorf("%s: %d items, err %v", e, len(items), err)
		}
	}
}

func TestListKindOption(t *testing.T) {
	list := widgetList(2)
	list.SetKind("Widgets")
	body := wireBytes(wire.JSON, list)
	c := bodyClient(t, wiretest.JSON, func() io.Reader { return bytes.NewReader(body) })
	items, _, err := collect(sourceOf(t, c, wire.Unstructured(widgetResource), Options{ListKind: "Widgets"}), nil)
	if err != nil || len(items) != 2 {
		t.Errorf("%d items, err %v", len(items), err)
	}
	if _, _, err := collect(sourceOf(t, c, wire.Unstructured(widgetResource), Options{}), nil); !errors.Is(err, object.ErrWrongKind) {
		t.Errorf("without ListKind: %v", err)
	}
}

// L15: an object that the receiver holds with the same UID and version is not decoded.
func TestL15_HeldItemsAreNotDecoded(t *testing.T) {
	list := podList(200)
	for _, e := range encodings {
		for _, every := range []int{1, 2, 50} {
			asked := 0
			held := func(key object.Key, uid object.UID, version object.Version) bool {
				i := asked
				asked++
				if want := pod(i); key.Namespace != want.Namespace || key.Name != want.Name || uid != want.UID || string(version) != want.ResourceVersion {
					t.Fatalf("%s: item %d is asked for as %v %s %s", e, i, key, uid, version)
				}
				return i%every == 0
			}
			items, _, err := collect(bytesSource(t, e, wireBytes(e, list), Options{parallel: 3, window: 64 << 10}), held)
			if err != nil || len(items) != len(list.Items) || asked != len(items) {
				t.Fatalf("%s: %d items, %d asked for, err %v", e, len(items), asked, err)
			}
			for i, item := range items {
				want := &list.Items[i]
				if item.Key.Name != want.Name || item.UID != want.UID || string(item.Version) != want.ResourceVersion {
					t.Fatalf("%s: item %d is called %v", e, i, item.Key)
				}
				if item.Held != (i%every == 0) || item.Held != (item.Object == nil) {
					t.Fatalf("%s: item %d: held %v, object %v", e, i, item.Held, item.Object != nil)
				}
			}
		}
	}
}

func TestListLazyLeavesObjectsEncoded(t *testing.T) {
	list := podList(40)
	for _, e := range encodings {
		src := bytesSource(t, e, wireBytes(e, list), Options{Lazy: true})
		i := 0
		_, err := src.List(t.Context(), object.ListOptions{}, nil, func(item object.Item[*corev1.Pod]) error {
			if item.Object != nil || item.Err != nil || item.Key.Name != list.Items[i].Name {
				t.Fatalf("item %d: %+v", i, item)
			}
			obj, err := src.Decode(item.Raw)
			if diff := cmp.Diff(&list.Items[i], obj); err != nil || diff != "" {
				t.Fatalf("item %d: %v (-want +got):\n%s", i, err, diff)
			}
			i++
			return nil
		})
		if err != nil || i != 40 {
			t.Errorf("%s: %d items, err %v", e, i, err)
		}
		if _, err := src.Decode([]byte{0x0a, 0x7f}); err == nil {
			t.Errorf("%s: broken bytes were decoded", e)
		}
	}
}

// Items are delivered in the server's order on any number of cores, however the body is split
// into reads, and whichever items are held.
func TestListKeepsTheServersOrder(t *testing.T) {
	const n = 150
	list := podList(n)
	bodies := map[wire.Encoding][]byte{wire.Protobuf: wireBytes(wire.Protobuf, list), wire.JSON: wireBytes(wire.JSON, list)}
	rapid.Check(t, func(rt *rapid.T) {
		e := rapid.SampledFrom(encodings).Draw(rt, "encoding")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 100_000)), 1, 20).Draw(rt, "sizes")
		opts := Options{
			parallel: rapid.IntRange(1, 5).Draw(rt, "parallel"),
			window:   rapid.IntRange(1, 300_000).Draw(rt, "window"),
		}
		every := rapid.IntRange(1, 9).Draw(rt, "held")
		body := &choppy{b: bodies[e], sizes: sizes}
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return body }), podsAs(e), opts)
		asked := -1
		items, page, err := collect(src, func(object.Key, object.UID, object.Version) bool { asked++; return asked%every == 1 })
		if err != nil || page.Version != "90000" || len(items) != n {
			rt.Fatalf("%d items, page %+v, err %v", len(items), page, err)
		}
		for i, item := range items {
			if item.Key.Name != list.Items[i].Name || item.Held != (i%every == 1) || item.Err != nil {
				rt.Fatalf("item %d: %v, held %v, err %v", i, item.Key, item.Held, item.Err)
			}
		}
	})
}

// choppy returns its bytes in pieces of the given sizes, in turn.
type choppy struct {
	b     []byte
	sizes []int
	i     int
}

func (c *choppy) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.sizes[c.i%len(c.sizes)])], c.b)
	c.b = c.b[n:]
	c.i++
	return n, nil
}

func TestListReturnsTheSinksError(t *testing.T) {
	enough := errors.New("enough")
	for _, e := range encodings {
		for _, parallel := range []int{1, 4} {
			src := bytesSource(t, e, wireBytes(e, podList(600)), Options{parallel: parallel, window: 1 << 18})
			n := 0
			_, err := src.List(t.Context(), object.ListOptions{}, nil, func(object.Item[*corev1.Pod]) error {
				if n++; n == 150 {
					return enough
				}
				return nil
			})
			if err != enough || n != 150 {
				t.Errorf("%s on %d: %v after %d items", e, parallel, err, n)
			}
		}
	}
}

func TestListEndsWithItsContext(t *testing.T) {
	for _, protocol := range protocols {
		for _, e := range encodings {
			body := wireBytes(e, podList(300))
			ctx, cancel := context.WithCancel(t.Context())
			c := serveOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", mediaOf(e))
				w.Write(body[:len(body)-10])
				w.(http.Flusher).Flush()
				cancel()
				<-r.Context().Done() // the rest is never sent
			})
			_, _, err := collectWithin(ctx, sourceOf(t, c, podsAs(e), Options{parallel: 3}), nil)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s %s: %v", protocol, e, err)
			}
		}
	}
}

func TestListReturnsNetworkErrors(t *testing.T) {
	broken := errors.New("cable cut")
	for _, e := range encodings {
		body := wireBytes(e, podList(5))
		c := bodyClient(t, mediaOf(e), func() io.Reader {
			return io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(broken))
		})
		if _, _, err := collect(sourceOf(t, c, podsAs(e), Options{}), nil); !errors.Is(err, broken) || errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v", e, err)
		}
	}
}
