package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// quick makes failures cost little time.
var quick = reflector.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}

// requests records the URLs requested through a config.
type requests struct {
	mu   sync.Mutex // guards urls
	urls []string
}

// record returns a config whose requests are remembered.
func record(config *rest.Config) (*rest.Config, *requests) {
	r := &requests{}
	return through(config, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.urls = append(r.urls, req.URL.RawQuery)
		r.mu.Unlock()
		return next.RoundTrip(req)
	}), r
}

// with returns the queries with all of these texts in them.
func (r *requests) with(texts ...string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
next:
	for _, url := range r.urls {
		for _, text := range texts {
			if !strings.Contains(url, text) {
				continue next
			}
		}
		found = append(found, url)
	}
	return found
}

// lists returns the queries of the lists.
func (r *requests) lists(t *testing.T) (lists []url.Values) {
	t.Helper()
	for _, query := range r.with() {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if !values.Has("watch") {
			lists = append(lists, values)
		}
	}
	return lists
}

// mirror is an informer that runs until the test ends, and what its subscriber received.
type mirror[T metav1.Object] struct {
	*informer.Informer[T]

	mu       sync.Mutex // guards received
	received []string
}

// mirrorOptions say how a mirror is made.
type mirrorOptions[T metav1.Object] struct {
	selection object.Selection
	source    stream.Options
	reflector reflector.Options[T]
	transform func(T) (T, error)
	unsynced  bool         // do not wait for the first list
	client    *wire.Client // in the place of one for the config
	log       int          // as in informer.Options
	onPanic   func(*informer.PanicError)
}

func startMirror[T metav1.Object](t *testing.T, config *rest.Config, res wire.Resource[T], opts mirrorOptions[T]) *mirror[T] {
	t.Helper()
	client, err := opts.client, error(nil)
	if client == nil {
		if client, err = wire.New(config, wire.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(client.CloseIdleConnections)
	source, err := stream.NewSource(wire.For(client, res), object.Selection{}, opts.source)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror[T]{}
	if opts.reflector.Backoff == (reflector.Backoff{}) {
		opts.reflector.Backoff = quick
	}
	opts.reflector.OnError = func(error) {} // Status has it
	m.Informer, err = informer.New(source, object.Meta[T](), informer.Options[T]{
		Resource:  res.Resource,
		Selection: opts.selection, Reflector: opts.reflector, Transform: opts.transform, Log: opts.log, OnPanic: opts.onPanic,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Subscribe(informer.Handler[T]{
		OnAdd:    func(obj T, _ bool) { m.tell("add", obj) },
		OnUpdate: func(_, obj T) { m.tell("update", obj) },
		OnDelete: func(obj T, unknown bool) {
			if unknown {
				m.tell("delete unknown", obj)
			} else {
				m.tell("delete", obj)
			}
		},
	}, informer.SubOptions[T]{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("received: %q\n%s\n%v", m.received, m.Status(), m.reflector().LastError)
		}
	})
	if !opts.unsynced {
		if err := m.WaitSynced(patience.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *mirror[T]) tell(what string, obj T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received = append(m.received, what+" "+obj.GetName())
}

// times counts how often the subscriber received a change.
func (m *mirror[T]) times(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.received {
		if s == what {
			n++
		}
	}
	return n
}

func (m *mirror[T]) receives(t *testing.T, what string) {
	t.Helper()
	patience.Until(t, "to receive "+what, func() bool { return m.times(what) > 0 })
}

// reaches waits until the mirror has an object as it was written.
func (m *mirror[T]) reaches(t *testing.T, obj metav1.Object) {
	t.Helper()
	if err := m.WaitForKey(patience.Context(t), object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}, object.Version(obj.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
}

func (m *mirror[T]) reflector() reflector.Status { return m.Status().Sources[0].Reflector }

// watches waits until a watch is open.
func (m *mirror[T]) watches(t *testing.T) {
	t.Helper()
	patience.Until(t, "an open watch", func() bool {
		s := m.reflector()
		return s.State == reflector.Watching && s.Connected
	})
}

// versions returns the version of each object.
func (m *mirror[T]) versions() map[string]string {
	versions := map[string]string{}
	snap := m.Snapshot()
	defer snap.Release()
	for obj := range snap.All() {
		versions[obj.GetName()] = obj.GetResourceVersion()
	}
	return versions
}

// same checks that the mirror has what a consistent list by client-go has.
func (m *mirror[T]) same(t *testing.T, s server) {
	t.Helper()
	list, err := s.clientset(t).CoreV1().ConfigMaps(s.namespace).List(patience.Context(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range list.Items {
		want[list.Items[i].Name] = string(list.Items[i].UID) + " " + list.Items[i].ResourceVersion
	}
	patience.Until(t, "the mirror to be what a list has", func() bool {
		got := map[string]string{}
		snap := m.Snapshot()
		defer snap.Release()
		for obj := range snap.All() {
			got[obj.GetName()] = string(obj.GetUID()) + " " + obj.GetResourceVersion()
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// writer writes config maps with client-go, so that what Tarn reads was not written by it.
type writer struct {
	t *testing.T
	server
}

func (w writer) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"value": value}}, Data: map[string]string{"value": value}}
}

func (w writer) create(name, value string) *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.clientset(w.t).CoreV1().ConfigMaps(w.namespace).Create(patience.Context(w.t), w.configMap(name, value), metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cm
}

func (w writer) update(name, value string) *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.clientset(w.t).CoreV1().ConfigMaps(w.namespace).Update(patience.Context(w.t), w.configMap(name, value), metav1.UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cm
}

func (w writer) delete(name string) {
	w.t.Helper()
	if err := w.clientset(w.t).CoreV1().ConfigMaps(w.namespace).Delete(patience.Context(w.t), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
