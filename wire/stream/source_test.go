package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

var widgetResource = object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}

// encodings are the encodings that each test runs with.
var encodings = []wire.Encoding{wire.Protobuf, wire.JSON}

// mediaOf returns the content type of an encoding.
func mediaOf(e wire.Encoding) string {
	if e == wire.Protobuf {
		return wiretest.Protobuf
	}
	return wiretest.JSON
}

// wireBytes encodes an object or a list as a server does.
func wireBytes(e wire.Encoding, obj runtime.Object) []byte { return wiretest.Encode(mediaOf(e), obj) }

// encodeEvent encodes a frame of a watch as a server does.
func encodeEvent(e wire.Encoding, typ string, obj runtime.Object) []byte {
	return wiretest.EncodeEvent(mediaOf(e), typ, obj)
}

// pod returns the i-th pod.
func pod(i int) *corev1.Pod {
	name := fmt.Sprintf("web-%05d", i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("shop-%d", i/50), Name: name,
			UID: types.UID(fmt.Sprintf("7f0c3a7e-%012d", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Labels:        map[string]string{"app": "web", "pod-template-hash": "6f9c"},
			Annotations:   map[string]string{"example.com/note": strings.Repeat("n", i%97)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", APIVersion: "v1"}},
		},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%d", i%7),
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/web:1.2", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250)},
	}
}

func podList(n int) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "90000"}}
	for i := range n {
		list.Items = append(list.Items, *pod(i))
	}
	return list
}

func widget(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{
			"namespace": "shop", "name": fmt.Sprintf("w-%05d", i),
			"uid": fmt.Sprintf("u-%d", i), "resourceVersion": fmt.Sprint(500 + i),
		},
		"spec": map[string]any{"size": int64(i), "ratio": 1.5, "tags": []any{"a", "b"}},
	}}
}

func widgetList(n int) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "WidgetList", "metadata": map[string]any{"resourceVersion": "700"},
	}}
	for i := range n {
		list.Items = append(list.Items, *widget(i))
	}
	return list
}

// protocols are the protocols that an API server supports.
var protocols = []string{"HTTP/1.1", "HTTP/1.1 TLS", "HTTP/2 TLS"}

// serveOver starts a server for one of the protocols, and checks that requests use it.
func serveOver(t testing.TB, protocol string, h http.HandlerFunc) *wire.Client {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want, _, _ := strings.Cut(protocol, " "); !strings.HasPrefix(r.Proto, want) {
			t.Errorf("the request came by %s, want %s", r.Proto, protocol)
		}
		h(w, r)
	}))
	if strings.HasSuffix(protocol, "TLS") {
		s.EnableHTTP2 = strings.HasPrefix(protocol, "HTTP/2")
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	rt := s.Client().Transport.(*http.Transport)
	c := wiretest.Must(wire.NewWithTransport(wiretest.Must(url.Parse(s.URL))(t), rt, wire.Options{}))(t)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

var podResource = wire.MustOf[*corev1.Pod]().Resource

// inMemory returns a client with a transport in memory.
func inMemory(t testing.TB, f wiretest.RoundTrip) *wire.Client {
	t.Helper()
	return wiretest.Must(wire.NewWithTransport(&url.URL{Scheme: "https", Host: "server"}, f, wire.Options{}))(t)
}

// bodyClient returns a client that gets the same body in every response.
func bodyClient(t testing.TB, media string, body func() io.Reader) *wire.Client {
	t.Helper()
	return inMemory(t, func(req *http.Request) (*http.Response, error) {
		resp := wiretest.Response(req, 200, "", "Content-Type", media)
		resp.Body, resp.ContentLength = io.NopCloser(body()), -1
		return resp, nil
	})
}

func sourceOf[T any](t testing.TB, c *wire.Client, res wire.Resource[T], opts Options) *Source[T] {
	t.Helper()
	return wiretest.Must(NewSource(wire.For(c, res), object.Selection{}, opts))(t)
}

func podsAs(e wire.Encoding) wire.Resource[*corev1.Pod] { return wire.MustOf[*corev1.Pod]().Encoded(e) }

// bytesSource lists and watches pods from the given body.
func bytesSource(t testing.TB, e wire.Encoding, body []byte, opts Options) *Source[*corev1.Pod] {
	t.Helper()
	return sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return bytes.NewReader(body) }), podsAs(e), opts)
}

// collect reads one page into memory.
func collect[T any](s *Source[T], held object.Held) ([]object.Item[T], object.Page, error) {
	return collectWithin(context.Background(), s, held)
}

func collectWithin[T any](ctx context.Context, s *Source[T], held object.Held) ([]object.Item[T], object.Page, error) {
	var items []object.Item[T]
	page, err := s.List(ctx, object.ListOptions{}, &object.Intake[T]{Held: held}, func(item object.Item[T]) error {
		items = append(items, item)
		return nil
	})
	return items, page, err
}

// checkPods compares items with the pods of a list.
func checkPods(t testing.TB, got []object.Item[*corev1.Pod], want []corev1.Pod) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d items, want %d", len(got), len(want))
	}
	for i, item := range got {
		w := &want[i]
		if item.Err != nil || item.Held || item.Raw != nil {
			t.Fatalf("item %d: err %v, held %v, %d raw bytes", i, item.Err, item.Held, len(item.Raw))
		}
		if diff := cmp.Diff(w, item.Object); diff != "" {
			t.Fatalf("item %d (-want +got):\n%s", i, diff)
		}
		if item.Key != (object.Key{Namespace: w.Namespace, Name: w.Name}) || item.UID != w.UID || string(item.Version) != w.ResourceVersion {
			t.Fatalf("item %d is called %v %s %s", i, item.Key, item.UID, item.Version)
		}
	}
}

func TestSourceBuildsRequests(t *testing.T) {
	var path, accept string
	var query url.Values
	c := inMemory(t, func(req *http.Request) (*http.Response, error) {
		path, query, accept = req.URL.Path, req.URL.Query(), req.Header.Get("Accept")
		if query.Has("watch") {
			return wiretest.Response(req, 200, "", "Content-Type", wiretest.JSON), nil
		}
		return wiretest.Response(req, 200, string(wireBytes(wire.JSON, podList(0))), "Content-Type", wiretest.JSON), nil
	})
	src := wiretest.Must(NewSource(wire.For(c, podsAs(wire.Protobuf)),
		object.Selection{Namespace: "shop", Labels: "app=web", Fields: "spec.nodeName=n1"},
		Options{Hook: func(verb wire.Verb, query url.Values) { query.Set("hooked", string(verb)) }},
	))(t)

	_, err := src.List(t.Context(), object.ListOptions{
		Selection: object.Selection{Labels: "tier=front"}, Version: "12", Match: object.NotOlderThan, Limit: 7,
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"labelSelector": {"app=web,tier=front"}, "fieldSelector": {"spec.nodeName=n1"}, "resourceVersion": {"12"},
		"resourceVersionMatch": {"NotOlderThan"}, "limit": {"7"}, "hooked": {"list"},
	}
	if diff := cmp.Diff(want, query); diff != "" || path != "/api/v1/namespaces/shop/pods" || accept != wiretest.Protobuf+","+wiretest.JSON {
		t.Errorf("list: path %s, accept %s, query (-want +got):\n%s", path, accept, diff)
	}

	st, err := src.Watch(t.Context(), object.WatchOptions{
		Version: "12", Match: object.NotOlderThan, InitialEvents: true, Bookmarks: true, Timeout: 90_500_000_000,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	want = url.Values{
		"labelSelector": {"app=web"}, "fieldSelector": {"spec.nodeName=n1"}, "resourceVersion": {"12"}, "watch": {"true"},
		"resourceVersionMatch": {"NotOlderThan"}, "sendInitialEvents": {"true"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {"91"}, "hooked": {"watch"},
	}
	if diff := cmp.Diff(want, query); diff != "" {
		t.Errorf("watch (-want +got):\n%s", diff)
	}

	if _, err := src.List(t.Context(), object.ListOptions{Selection: object.Selection{Namespace: "other"}}, nil, nil); err == nil {
		t.Error("a source of one namespace listed another")
	}
	if _, err := sourceOf(t, c, podsAs(wire.JSON), Options{}).List(t.Context(), object.ListOptions{}, nil, nil); err != nil {
		t.Error(err)
	}
	if accept != wiretest.JSON {
		t.Errorf("a resource that travels as wire.JSON accepts %s", accept)
	}
}

func TestNewSourceNamesTheInvalidOption(t *testing.T) {
	c := bodyClient(t, wiretest.JSON, nil)
	for want, opts := range map[string]Options{
		"FrameLimit is negative": {FrameLimit: -1}, "FrameLimit is above": {FrameLimit: 1<<30 + 1},
		"nope": {Drop: []object.FieldPath{{"spec", "nope"}}},
	} {
		if _, err := NewSource(wire.For(c, podsAs(wire.Protobuf)), object.Selection{}, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
