package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// L07: the first page has nothing but a token. A server makes such a page when all that it
// looked at was left out by a selector; this one is put before the real answer.
func TestL07_EmptyPagesAreFollowed(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		w.create("b", "0")
		empty := &between{list: func(query url.Values, body []byte) []byte {
			if query.Get("continue") != "" {
				return body
			}
			var list map[string]any
			if err := json.Unmarshal(body, &list); err != nil {
				t.Error(err)
			}
			list["items"] = []any{}
			list["metadata"].(map[string]any)["continue"] = "next"
			body, err := json.Marshal(list)
			if err != nil {
				t.Error(err)
			}
			return body
		}}
		// The server does not know the token, so it is taken away before it gets there.
		config, asked := record(asking(s.config, func(query url.Values) { query.Del("continue") }))
		m := startMirror(t, empty.put(config), configMaps.Encoded(wire.JSON), mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOff},
		})
		m.same(t, s)
		if c := m.reflector().Counts; c.Pages != 2 || c.Lists != 1 || m.Len() != 2 {
			t.Errorf("%d pages of %d lists with %d objects", c.Pages, c.Lists, m.Len())
		}
		if n := len(asked.with("continue=next")); n != 1 {
			t.Errorf("the token was used %d times", n)
		}
	})
}

// asking returns a config of which what is asked is changed.
func asking(config *rest.Config, change func(query url.Values)) *rest.Config {
	return through(config, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		change(query)
		req.URL.RawQuery = query.Encode()
		return next.RoundTrip(req)
	})
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// stone is a custom resource with a Go type.
type stone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
}

// quarry is where stones are defined and written.
type quarry struct {
	t   *testing.T
	api dynamic.ResourceInterface
	res object.Resource
}

// defineStones defines a custom resource of that group, until the test ends.
func defineStones(t *testing.T, s server, group string) quarry {
	t.Helper()
	api, err := dynamic.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(definition(group, "stones", "Stone")), &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := api.Resource(crdResource)
	if _, err := crds.Create(patience.Context(t), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Delete(context.Background(), "stones."+group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	res := object.Resource{Group: group, Version: "v1", Resource: "stones", Kind: "Stone", Namespaced: true}
	q := quarry{t, api.Resource(res.GVR()).Namespace(s.namespace), res}
	patience.Until(t, "stones to be served", func() bool {
		_, err := q.api.List(patience.Context(t), metav1.ListOptions{})
		return err == nil
	})
	return q
}

func (q quarry) stone(name string, size any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	u.SetGroupVersionKind(q.res.GVK())
	u.SetName(name)
	return u
}

func (q quarry) create(name string, size any) *unstructured.Unstructured {
	q.t.Helper()
	u, err := q.api.Create(patience.Context(q.t), q.stone(name, size), metav1.CreateOptions{})
	if err != nil {
		q.t.Fatal(err)
	}
	return u
}

func (q quarry) update(u *unstructured.Unstructured, size any) *unstructured.Unstructured {
	q.t.Helper()
	next := q.stone(u.GetName(), size)
	next.SetResourceVersion(u.GetResourceVersion())
	u, err := q.api.Update(patience.Context(q.t), next, metav1.UpdateOptions{})
	if err != nil {
		q.t.Fatal(err)
	}
	return u
}

// L08: a list of built-in objects begins with its version, one of custom resources ends with
// it.
func TestL08_TheVersionMayComeLast(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		q := defineStones(t, s, "l08.example.com")
		q.create("a", int64(1))
		versionFirst := func(first *atomic.Int32) *between {
			return &between{list: func(_ url.Values, body []byte) []byte {
				first.Store(2)
				if bytes.Index(body, []byte(`"metadata"`)) < bytes.Index(body, []byte(`"items"`)) {
					first.Store(1)
				}
				return body
			}}
		}
		var typed, custom atomic.Int32
		m := startMirror(t, versionFirst(&typed).put(s.config), configMaps.Encoded(wire.JSON), mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOff},
		})
		c := startMirror(t, versionFirst(&custom).put(s.config), wire.Custom[*stone](q.res), mirrorOptions[*stone]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*stone]{Streaming: reflector.StreamingOff},
		})
		if typed.Load() != 1 || custom.Load() != 2 {
			t.Errorf("the order of a list's fields is no longer what it was: %d, %d", typed.Load(), custom.Load())
		}
		if m.Len() != 1 || c.Len() != 1 || !m.reflector().Mark.Version.Known() || !c.reflector().Mark.Version.Known() {
			t.Errorf("%d at %q, %d at %q", m.Len(), m.reflector().Mark.Version, c.Len(), c.reflector().Mark.Version)
		}
		// A version that was not understood would make the watch begin somewhere else.
		m.reaches(t, w.create("b", "0"))
		c.reaches(t, q.create("b", int64(1)))
		if m.times("add a") != 1 || c.times("add a") != 1 || c.reflector().Counts.Lists != 1 {
			t.Error("the watch did not begin at the list's version")
		}
	})
}

// counting returns a config of which is counted what is read of the answers.
func counting(config *rest.Config, read *atomic.Int64) *rest.Config {
	return through(config, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "identity")
		res, err := next.RoundTrip(req)
		if err == nil {
			res.Body = countedBody{res.Body, read}
		}
		return res, err
	})
}

type countedBody struct {
	io.ReadCloser
	read *atomic.Int64
}

// Read implements io.Reader.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// L09: however long a list is, no more of it is read than is about to be handed on, and
// nothing of what has been handed on is kept.
func TestL09_ListsAreNotHeld(t *testing.T) {
	const size = 100 << 10
	test := func(t *testing.T, s server, objects int) {
		api := s.clientset(t).CoreV1().ConfigMaps(s.namespace)
		var writers sync.WaitGroup
		for part := range 4 {
			writers.Go(func() {
				for i := part; i < objects; i += 4 {
					cm := writer{t, s}.configMap(fmt.Sprintf("long-%d", i), "0")
					cm.Data["long"] = strings.Repeat(fmt.Sprint(i%10), size)
					if _, err := api.Create(patience.Context(t), cm, metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		for _, encoding := range []wire.Encoding{wire.JSON, wire.Protobuf} {
			t.Run(string(encoding), func(t *testing.T) {
				var read atomic.Int64
				client, err := wire.New(counting(s.config, &read), wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.CloseIdleConnections)
				source, err := stream.NewSource(wire.For(client, configMaps.Encoded(encoding)), object.Selection{Namespace: s.namespace}, stream.Options{})
				if err != nil {
					t.Fatal(err)
				}
				items, ahead, heap := int64(0), int64(0), uint64(0)
				before := heapInUse()
				_, err = source.List(patience.Context(t), object.ListOptions{}, nil, func(item object.Item[*corev1.ConfigMap]) error {
					items++
					ahead = max(ahead, read.Load()-items*size)
					if items%20 == 0 && s.embedded == nil { // which has its objects in this heap
						heap = max(heap, heapInUse())
					}
					return item.Err
				})
				if err != nil || items != int64(objects) {
					t.Fatalf("%d items, %v", items, err)
				}
				// A window of a mebibyte, and what the decoder has in hand; the list has many more.
				if ahead > 3<<20 {
					t.Errorf("%d bytes were read ahead", ahead)
				}
				if heap > before+8<<20 { // half of which HTTP/2 may hold by itself
					t.Errorf("the heap grew by %d bytes", heap-before)
				}
			})
		}
	}
	// One after the other, because they share the heap.
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t), 60) })
	t.Run("real", func(t *testing.T) { test(t, genuine(t), 150) })
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// L11: an object that does not fit its Go type, which a server with a lax schema stores
// without a word, is put aside until a good version comes.
func TestL11_OneBadObject(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		q := defineStones(t, s, "l11.example.com")
		bad := q.create("bad", "large")
		good := q.create("good", int64(1))
		turns := q.create("turns", int64(1))
		for _, mode := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
			t.Run("streaming "+mode.String(), func(t *testing.T) {
				q.t = t
				m := startMirror(t, s.config, wire.Custom[*stone](q.res), mirrorOptions[*stone]{
					selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*stone]{Streaming: mode},
				})
				quarantined := func(names ...string) func() bool {
					return func() bool {
						var got []string
						for _, one := range m.Status().Quarantine {
							got = append(got, one.Key.Name)
						}
						return fmt.Sprint(got) == fmt.Sprint(names)
					}
				}
				patience.Until(t, "the bad one in quarantine", quarantined("bad"))
				one := m.Status().Quarantine[0]
				if one.Cause == nil || one.Count != 1 || one.UID != bad.GetUID() || !bytes.Contains(one.Raw, []byte("large")) {
					t.Errorf("in quarantine is %+v", one)
				}
				if m.Len() != 2 {
					t.Errorf("%d others", m.Len())
				}
				// One that was good keeps its last good state.
				turns = q.update(turns, "huge")
				patience.Until(t, "both in quarantine", quarantined("bad", "turns"))
				if held, ok := m.Get(object.Key{Namespace: s.namespace, Name: "turns"}); !ok || held.Spec.Size != 1 {
					t.Errorf("held is %+v", held)
				}
				good = q.update(good, int64(2))
				m.reaches(t, good) // the others go on
				bad, turns = q.update(bad, int64(7)), q.update(turns, int64(8))
				m.reaches(t, turns)
				patience.Until(t, "quarantine to end", quarantined())
				if held, ok := m.Get(object.Key{Namespace: s.namespace, Name: "bad"}); !ok || held.Spec.Size != 7 {
					t.Errorf("held is %+v", held)
				}
				if c := m.reflector().Counts; c.Lists != 1 {
					t.Errorf("%d lists", c.Lists)
				}
				bad, good, turns = q.update(bad, "large"), q.update(good, int64(1)), q.update(turns, int64(1))
			})
		}
	})
}

// L16: all that a relist changes, deletions too, is seen at once.
func TestL16_RelistsCommitInOneStep(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		const n = 20
		for i := range n {
			w.create(fmt.Sprintf("old-%d", i), "0")
		}
		var closed atomic.Bool
		b := &between{watch: func(int, url.Values) *edit {
			if closed.Load() {
				return &edit{before: []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}, end: true}
			}
			return &edit{each: func(f frame) []frame {
				if closed.Load() { // so the relist will have it, and not this watch
					return []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}
				}
				return []frame{f}
			}}
		}}
		// The list waits until all is written.
		written := make(chan struct{})
		held := asking(s.config, func(query url.Values) {
			if closed.Load() && !query.Has("watch") {
				<-written
			}
		})
		m := startMirror(t, b.put(held), configMaps, mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOff},
		})
		m.watches(t)
		closed.Store(true)
		for i := range n {
			if i%2 == 0 {
				w.delete(fmt.Sprintf("old-%d", i))
			} else {
				w.update(fmt.Sprintf("old-%d", i), "1")
			}
			w.create(fmt.Sprintf("new-%d", i), "1")
		}
		states := map[string]int{}
		var reader sync.WaitGroup
		var stop atomic.Bool
		reader.Go(func() {
			for !stop.Load() {
				snap := m.Snapshot()
				values := map[string]int{}
				for cm := range snap.All() {
					values[cm.Data["value"]]++
				}
				snap.Release()
				states[fmt.Sprint(values)]++
				runtime.Gosched()
			}
		})
		patience.Until(t, "the server's cache, which answers the list, has the last write", func() bool {
			found, err := s.clientset(t).CoreV1().ConfigMaps(s.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			return err == nil && slices.ContainsFunc(found.Items, func(cm corev1.ConfigMap) bool { return cm.Name == fmt.Sprintf("new-%d", n-1) })
		})
		close(written)
		patience.Until(t, "the new state", func() bool {
			_, ok := m.Get(object.Key{Namespace: s.namespace, Name: "new-0"})
			return ok
		})
		closed.Store(false)
		m.same(t, s)
		stop.Store(true)
		reader.Wait()
		for state := range states {
			if state != "map[0:20]" && state != "map[1:30]" {
				t.Errorf("a reader saw %s", state)
			}
		}
		if len(states) == 0 || m.reflector().Counts.Lists < 2 {
			t.Errorf("%d states, %d lists", len(states), m.reflector().Counts.Lists)
		}
	})
}
