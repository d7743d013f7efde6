package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

type podEvent = object.Event[*corev1.Pod]

// drain reads a stream to its end. The events are copies.
func drain[T any](st object.Stream[T]) ([]object.Event[T], error) {
	var events []object.Event[T]
	for {
		got, err := st.Next()
		if err != nil {
			return events, err
		}
		events = append(events, got...)
	}
}

// watchBytes reads a watch of pods from the given body.
func watchBytes(t testing.TB, e wire.Encoding, body []byte, opts Options, held object.Held) ([]podEvent, error) {
	t.Helper()
	st := wiretest.Must(bytesSource(t, e, body, opts).Watch(t.Context(), object.WatchOptions{}, &object.Intake[*corev1.Pod]{Held: held}))(t)
	defer st.Close()
	return drain(st)
}

// podEvents returns the frames of n events: ADDED, MODIFIED and DELETED in turn.
func podEvents(e wire.Encoding, n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, encodeEvent(e, []string{"ADDED", "MODIFIED", "DELETED"}[i%3], pod(i))...)
	}
	return b
}

func checkPodEvents(t testing.TB, got []podEvent, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d events, want %d", len(got), n)
	}
	var items []object.Item[*corev1.Pod]
	for i, ev := range got {
		if want := []object.Kind{object.Added, object.Updated, object.Deleted}[i%3]; ev.Kind != want || ev.Err != nil || ev.InitialEnd {
			t.Fatalf("event %d: %v, err %v", i, ev.Kind, ev.Err)
		}
		items = append(items, ev.Item)
	}
	checkPods(t, items, podList(n).Items)
}

func TestWatchDecodesAsClientGoDoes(t *testing.T) {
	for _, protocol := range protocols {
		for _, e := range encodings {
			t.Run(protocol+" "+string(e), func(t *testing.T) {
				body := podEvents(e, 90)
				c := serveOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", mediaOf(e)+";stream=watch")
					w.WriteHeader(200)
					for b := body; len(b) > 0; {
						n := min(len(b), 777)
						w.Write(b[:n])
						w.(http.Flusher).Flush()
						b = b[n:]
					}
				})
				st := wiretest.Must(sourceOf(t, c, podsAs(e), Options{}).Watch(t.Context(), object.WatchOptions{}, nil))(t)
				defer st.Close()
				events, err := drain(st)
				if err != io.EOF {
					t.Errorf("ended with %v", err)
				}
				checkPodEvents(t, events, 90)
				if _, err := st.Next(); err != io.EOF {
					t.Errorf("after the end: %v", err)
				}
			})
		}
	}
}

func TestWatchOfUnstructuredAndMetadataOnly(t *testing.T) {
	var body []byte
	for i := range 20 {
		body = append(body, encodeEvent(wire.JSON, "ADDED", widget(i))...)
	}
	c := bodyClient(t, wiretest.JSON, func() io.Reader { return bytes.NewReader(body) })
	st := wiretest.Must(sourceOf(t, c, wire.Unstructured(widgetResource), Options{}).Watch(t.Context(), object.WatchOptions{}, nil))(t)
	events, err := drain(st)
	st.Close()
	if err != io.EOF || len(events) != 20 {
		t.Fatalf("%d events, err %v", len(events), err)
	}
	for i, ev := range events {
		if diff := cmp.Diff(widget(i).Object, ev.Item.Object.Object); diff != "" {
			t.Fatalf("event %d (-want +got):\n%s", i, diff)
		}
	}

	for _, e := range encodings {
		m := &metav1.PartialObjectMetadata{ObjectMeta: pod(3).ObjectMeta}
		m.APIVersion, m.Kind = "meta.k8s.io/v1", "PartialObjectMetadata"
		body := append(encodeEvent(e, "ADDED", m), encodeEvent(e, "ADDED", pod(3))...) // the second from a server that cannot omit anything
		var accept string
		c := inMemory(t, func(req *http.Request) (*http.Response, error) {
			accept = req.Header.Get("Accept")
			return wiretest.Response(req, 200, string(body), "Content-Type", mediaOf(e)), nil
		})
		st := wiretest.Must(sourceOf(t, c, wire.Metadata(podResource), Options{}).Watch(t.Context(), object.WatchOptions{}, nil))(t)
		events, err := drain(st)
		st.Close()
		if err != io.EOF || len(events) != 2 || !strings.Contains(accept, "as=PartialObjectMetadata;") {
			t.Fatalf("%s: %d events, err %v, accept %s", e, len(events), err, accept)
		}
		for _, ev := range events {
			if diff := cmp.Diff(&metav1.PartialObjectMetadata{ObjectMeta: pod(3).ObjectMeta}, ev.Item.Object); diff != "" {
				t.Errorf("%s (-want +got):\n%s", e, diff)
			}
		}
	}
}

// W02: only the annotated bookmark ends the initial events. W07: a bookmark has a type and a
// version and nothing else.
func TestW02_W07_BookmarksHaveAVersionAndMayEndTheInitialEvents(t *testing.T) {
	bookmark := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "77", Annotations: annotations}}
	}
	for _, e := range encodings {
		body := bytes.Join([][]byte{
			encodeEvent(e, "ADDED", pod(0)),
			encodeEvent(e, "BOOKMARK", bookmark(nil)),
			encodeEvent(e, "BOOKMARK", bookmark(map[string]string{"k8s.io/initial-events-end": "false"})),
			encodeEvent(e, "BOOKMARK", bookmark(map[string]string{"k8s.io/initial-events-end": "true"})),
		}, nil)
		events, err := watchBytes(t, e, body, Options{}, nil)
		if err != io.EOF || len(events) != 4 {
			t.Fatalf("%s: %d events, err %v", e, len(events), err)
		}
		for i, ev := range events[1:] {
			want := podEvent{Bookmark: true, Item: object.Item[*corev1.Pod]{Version: "77"}, InitialEnd: i == 2}
			if diff := cmp.Diff(want, ev); diff != "" {
				t.Errorf("%s, bookmark %d (-want +got):\n%s", e, i, diff)
			}
		}
	}
}

// W08: 410 as the HTTP status, and as an event inside a 200.
func TestW08_GoneAsAResponseAndAsAnEvent(t *testing.T) {
	for _, e := range encodings {
		status := apierrors.NewResourceExpired("too old resource version: 5 (9)").ErrStatus
		events, err := watchBytes(t, e, append(podEvents(e, 1), encodeEvent(e, "ERROR", &status)...), Options{}, nil)
		if err != io.EOF || len(events) != 2 {
			t.Fatalf("%s: %d events, err %v", e, len(events), err)
		}
		ev := events[1]
		var inner *apierrors.StatusError
		if ev.Err == nil || !apierrors.IsResourceExpired(ev.Err) || !errors.As(ev.Err, &inner) || inner.ErrStatus.Code != 410 {
			t.Errorf("%s: %v with %v", e, ev.Kind, ev.Err)
		}

		gone := inMemory(t, func(req *http.Request) (*http.Response, error) {
			return wiretest.Response(req, 410, string(wireBytes(e, &status)), "Content-Type", mediaOf(e)), nil
		})
		if _, err := sourceOf(t, gone, podsAs(e), Options{}).Watch(t.Context(), object.WatchOptions{}, nil); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s as an answer: %v", e, err)
		}
	}
}

// W15: DELETED has the last state, with the version that the server sends, and is decoded even if
// that version is held.
func TestW15_DeletedHasTheLastState(t *testing.T) {
	for _, e := range encodings {
		body := append(encodeEvent(e, "DELETED", pod(2)), encodeEvent(e, "MODIFIED", pod(2))...)
		events, err := watchBytes(t, e, body, Options{}, func(object.Key, object.UID, object.Version) bool { return true })
		if err != io.EOF || len(events) != 2 {
			t.Fatalf("%s: %d events, err %v", e, len(events), err)
		}
		if ev := events[0]; ev.Kind != object.Deleted || ev.Item.Held || ev.Item.Version != "1002" || cmp.Diff(pod(2), ev.Item.Object) != "" {
			t.Errorf("%s: %+v", e, ev)
		}
		if ev := events[1]; !ev.Item.Held || ev.Item.Object != nil || ev.Item.Key.Name != pod(2).Name || ev.Item.UID != pod(2).UID {
			t.Errorf("%s: %+v", e, ev)
		}
	}
}

// W20: an overlong, invalid or truncated frame ends the stream as corrupt, after the events before
// it.
func TestW20_InvalidFramesEndTheStreamAfterTheValidOnes(t *testing.T) {
	long := pod(9)
	long.Annotations["long"] = strings.Repeat("x", 8<<10)
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	frame := func(b []byte) []byte { return append(length(uint32(len(b))), b...) }
	good := encodeEvent(wire.Protobuf, "ADDED", pod(3))
	inner := frame(append(protoField(1, []byte("ADDED")), protoField(2, protoField(1, []byte("not an envelope")))...))
	for name, c := range map[string]struct {
		e   wire.Encoding
		bad []byte
	}{
		"protobuf overlong":            {wire.Protobuf, encodeEvent(wire.Protobuf, "ADDED", long)},
		"protobuf absurd length":       {wire.Protobuf, length(0xffffffff)},
		"protobuf cut off":             {wire.Protobuf, good[:len(good)-1]},
		"protobuf cut in its length":   {wire.Protobuf, good[:3]},
		"protobuf length of 4 GiB":     {wire.Protobuf, []byte("\xff\xff\xff\xff")},
		"protobuf length of 2 GiB":     {wire.Protobuf, []byte("\x80\x00\x00\x00")},
		"protobuf no event":            {wire.Protobuf, frame([]byte("\xff\xff"))},
		"protobuf no envelope":         {wire.Protobuf, inner},
		"protobuf no object":           {wire.Protobuf, frame(protoField(1, []byte("ADDED")))},
		"protobuf empty frame":         {wire.Protobuf, length(0)},
		"protobuf type of wrong type":  {wire.Protobuf, frame([]byte{0x08, 1})},
		"protobuf object of wrong typ": {wire.Protobuf, frame([]byte{0x0a, 5, 'A', 'D', 'D', 'E', 'D', 0x12, 2, 0x08, 1})},
		"JSON overlong":                {wire.JSON, encodeEvent(wire.JSON, "ADDED", long)},
		"JSON cut off":                 {wire.JSON, encodeEvent(wire.JSON, "ADDED", pod(3))[:200]},
		"JSON invalid":                 {wire.JSON, []byte("{]")},
		"JSON no object":               {wire.JSON, []byte(`{"type":"ADDED"}`)},
		"JSON no type":                 {wire.JSON, []byte(`{"object":{}}`)},
		"JSON not an event":            {wire.JSON, []byte(`"ADDED"`)},
		"JSON garbage":                 {wire.JSON, []byte("<html>502 Bad Gateway</html>")},
	} {
		for _, chunk := range []int{1, 1 << 20} {
			body := &choppy{b: append(podEvents(c.e, 3), c.bad...), sizes: []int{chunk}}
			src := sourceOf(t, bodyClient(t, mediaOf(c.e), func() io.Reader { return body }), podsAs(c.e), Options{FrameLimit: 4 << 10})
			st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
			events, err := drain(st)
			if !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("%s: ended with %v", name, err)
			}
			checkPodEvents(t, events, 3)
			if _, again := st.Next(); !errors.Is(again, object.ErrCorrupt) {
				t.Errorf("%s: then %v", name, again)
			}
			st.Close()
		}
	}
}

func TestW20_AnObjectThatCannotBeDecodedDoesNotEndTheStream(t *testing.T) {
	bad := strings.Replace(string(encodeEvent(wire.JSON, "MODIFIED", pod(7))), `"nodeName":"node-0"`, `"nodeName":{"no":1}`, 1)
	body := append([]byte(bad), encodeEvent(wire.JSON, "ADDED", pod(8))...)
	events, err := watchBytes(t, wire.JSON, body, Options{}, nil)
	if err != io.EOF || len(events) != 2 {
		t.Fatalf("%d events, err %v", len(events), err)
	}
	if q := events[0].Item; events[0].Kind != object.Updated || q.Err == nil || len(q.Raw) == 0 || q.Key.Name != "web-00007" || q.Version != "1007" {
		t.Errorf("quarantined: %+v", events[0])
	}
	checkPods(t, []object.Item[*corev1.Pod]{events[1].Item}, []corev1.Pod{*pod(8)})
}

// W21: an event of an unknown type is delivered without a Kind; a wrong kind is an error.
func TestW21_UnknownTypesAreDeliveredAndWrongKindsEndTheStream(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	noKind := []byte(`{"type":"ADDED","object":{"metadata":{"name":"x"}}}`)
	held := func(object.Key, object.UID, object.Version) bool { return false }
	for _, e := range encodings {
		events, err := watchBytes(t, e, append(encodeEvent(e, "RENAMED", service), encodeEvent(e, "ADDED", pod(0))...), Options{}, nil)
		if err != io.EOF || len(events) != 2 || (events[0].Kind != 0 || events[0].Bookmark || events[0].Err != nil) || events[1].Kind != object.Added {
			t.Errorf("%s, unknown type: %d events, err %v", e, len(events), err)
		}
		wrong := map[string][]byte{
			"ADDED": encodeEvent(e, "ADDED", service), "BOOKMARK": encodeEvent(e, "BOOKMARK", service), "ERROR": encodeEvent(e, "ERROR", service),
		}
		if e == wire.JSON {
			wrong["no kind"] = noKind
		}
		for name, frame := range wrong {
			for _, held := range []object.Held{nil, held} {
				body := bytes.Join([][]byte{podEvents(e, 2), frame, podEvents(e, 1)}, nil)
				events, err := watchBytes(t, e, body, Options{}, held)
				var kind *object.WrongKindError
				if !errors.As(err, &kind) || (name != "no kind" && kind.Got != "v1, Kind=Service") {
					t.Errorf("%s, wrong kind in %s: %v", e, name, err)
				}
				checkPodEvents(t, events, 2)
			}
		}
	}
}

func TestWatchEndsWithItsContextAndWhenClosed(t *testing.T) {
	for _, protocol := range protocols {
		for _, e := range encodings {
			for _, how := range []string{"context", "close"} {
				t.Run(fmt.Sprint(protocol, " ", e, " ", how), func(t *testing.T) {
					gone := make(chan struct{})
					c := serveOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						defer close(gone)
						w.Header().Set("Content-Type", mediaOf(e))
						w.Write(podEvents(e, 1))
						w.(http.Flusher).Flush()
						<-r.Context().Done()
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					st := wiretest.Must(sourceOf(t, c, podsAs(e), Options{}).Watch(ctx, object.WatchOptions{}, nil))(t)
					if events, err := st.Next(); err != nil || len(events) != 1 {
						t.Fatalf("%d events, err %v", len(events), err)
					}
					ended := make(chan error, 1)
					go func() { _, err := st.Next(); ended <- err }()
					want := context.Canceled
					if how == "close" {
						want = net.ErrClosed
						st.Close()
					} else {
						cancel()
					}
					if err := <-ended; !errors.Is(err, want) {
						t.Errorf("Next: %v", err)
					}
					<-gone // the server notices it too
					st.Close()
					st.Close()
					if _, err := st.Next(); !errors.Is(err, want) {
						t.Errorf("Next after the end: %v", err)
					}
				})
			}
		}
	}
}

// Close ends a watch whose goroutine is blocked by a full inbox.
func TestWatchClosesWithAFullInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, pieces := pipeSource(t, wire.Protobuf, Options{window: 1})
		st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
		pieces <- podEvents(wire.Protobuf, 10)
		synctest.Wait()
		st.Close()
		if _, err := st.Next(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// Next returns all events that have arrived, and a single event at once.
func TestWatchDeliversInBatches(t *testing.T) {
	for _, e := range encodings {
		synctest.Test(t, func(t *testing.T) {
			src, pieces := pipeSource(t, e, Options{})
			st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
			defer st.Close()
			for round := range 3 {
				for i := range 40 {
					pieces <- encodeEvent(e, "ADDED", pod(i))
				}
				synctest.Wait()
				events, err := st.Next()
				if err != nil || len(events) != 40 {
					t.Fatalf("%s, round %d: %d events, err %v", e, round, len(events), err)
				}
				pieces <- encodeEvent(e, "ADDED", pod(1))
				if events, err = st.Next(); err != nil || len(events) != 1 {
					t.Fatalf("%s, round %d: %d events, err %v", e, round, len(events), err)
				}
			}
		})
	}
}

func TestWatchKeepsTheServersOrder(t *testing.T) {
	bodies := map[wire.Encoding][]byte{wire.Protobuf: podEvents(wire.Protobuf, 30), wire.JSON: podEvents(wire.JSON, 30)}
	rapid.Check(t, func(rt *rapid.T) {
		e := rapid.SampledFrom(encodings).Draw(rt, "encoding")
		body := &choppy{b: bodies[e], sizes: rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 50_000)), 1, 20).Draw(rt, "sizes")}
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return body }), podsAs(e), Options{
			parallel: rapid.IntRange(1, 5).Draw(rt, "parallel"),
			window:   rapid.IntRange(1, 100_000).Draw(rt, "window"),
		})
		st, err := src.Watch(t.Context(), object.WatchOptions{}, nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer st.Close()
		events, err := drain(st)
		if err != io.EOF {
			rt.Fatal(err)
		}
		checkPodEvents(t, events, 30)
	})
}

// A frame that looks like the usual layout but is not is parsed completely.
func TestWatchReadsUnusualFrames(t *testing.T) {
	obj := strings.TrimSpace(string(wireBytes(wire.JSON, pod(1))))
	for _, frame := range []string{
		`{"type":"ADDED","object":` + obj + `,"more":{"object":{}}}`,
		`{"type":"ADDED","object":` + obj + ` , "x":"}"}`,
		`{"type":"ADDED","object":` + obj + " \n}",
		`{"object":` + obj + `,"type":"ADDED"}`,
		` { "type" : "ADDED", "object" : ` + obj + ` } `,
	} {
		for _, held := range []object.Held{nil, func(object.Key, object.UID, object.Version) bool { return false }} {
			events, err := watchBytes(t, wire.JSON, []byte(frame+frame), Options{}, held)
			if err != io.EOF || len(events) != 2 || events[1].Kind != object.Added {
				t.Errorf("%.40s…%s: %d events, err %v", frame, frame[len(frame)-20:], len(events), err)
				continue
			}
			checkPods(t, []object.Item[*corev1.Pod]{events[1].Item}, []corev1.Pod{*pod(1)})
		}
	}
	two := `{"type":"ADDED","object":` + obj + `,"object":` + obj + `}`
	for _, held := range []object.Held{nil, func(object.Key, object.UID, object.Version) bool { return false }} {
		if events, err := watchBytes(t, wire.JSON, []byte(two), Options{}, held); !errors.Is(err, object.ErrCorrupt) || len(events) > 0 {
			t.Errorf("two objects: %d events, err %v", len(events), err)
		}
	}
}

func TestWatchLazyLeavesObjectsEncoded(t *testing.T) {
	for _, e := range encodings {
		src := bytesSource(t, e, podEvents(e, 9), Options{Lazy: true})
		st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
		n := 0
		for {
			events, err := st.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				if ev.Item.Object != nil || ev.Item.Key.Name != pod(n).Name || ev.Item.Version == "" {
					t.Fatalf("%s: %+v", e, ev)
				}
				if obj, err := src.Decode(ev.Item.Raw); err != nil || cmp.Diff(pod(n), obj) != "" {
					t.Fatalf("%s: event %d: %v", e, n, err)
				}
				n++
			}
		}
		st.Close()
		if n != 9 {
			t.Errorf("%s: %d events", e, n)
		}
	}
}

func TestWatchReturnsNetworkErrors(t *testing.T) {
	for _, e := range encodings {
		broken := errors.New("cable cut")
		c := bodyClient(t, mediaOf(e), func() io.Reader {
			return io.MultiReader(bytes.NewReader(podEvents(e, 3)), iotest.ErrReader(broken))
		})
		st := wiretest.Must(sourceOf(t, c, podsAs(e), Options{}).Watch(t.Context(), object.WatchOptions{}, nil))(t)
		events, err := drain(st)
		if !errors.Is(err, broken) || errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v", e, err)
		}
		checkPodEvents(t, events, 3)
		st.Close()
	}
}
