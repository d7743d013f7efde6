package adapters

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/wire"
)

// swallower loses the bookmark that ends a streaming list, as a proxy may that does not
// know it, and counts.
type swallower struct {
	http.RoundTripper
	streams, swallowed, lists atomic.Int64
}

func swallow(config *rest.Config) (*rest.Config, *swallower) {
	s := &swallower{}
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { s.RoundTripper = rt; return s })
	return config, s
}

// RoundTrip implements http.RoundTripper.
func (s *swallower) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	res, err := s.RoundTripper.RoundTrip(req)
	switch {
	case err != nil:
	case query.Get("sendInitialEvents") == "true":
		s.streams.Add(1)
		next := line
		if strings.Contains(res.Header.Get("Content-Type"), "protobuf") {
			next = frame
		}
		res.Body = &holedBody{ReadCloser: res.Body, from: bufio.NewReader(res.Body), next: next, swallowed: &s.swallowed}
	case query.Get("watch") == "":
		s.lists.Add(1)
	}
	return res, err
}

// line returns the next event of a JSON stream.
func line(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') }

// frame returns the next event of a protobuf stream.
func frame(r *bufio.Reader) ([]byte, error) {
	size, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	event := make([]byte, 4+binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(r, event)
	return event, err
}

// holedBody is a stream of events without those that end an initial list.
type holedBody struct {
	io.ReadCloser
	from      *bufio.Reader
	next      func(*bufio.Reader) ([]byte, error)
	event     []byte // what is left of it
	swallowed *atomic.Int64
}

// Read implements io.Reader.
func (b *holedBody) Read(p []byte) (int, error) {
	for len(b.event) == 0 {
		event, err := b.next(b.from)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)) {
			b.swallowed.Add(1)
			continue
		}
		b.event = event
	}
	n := copy(p, b.event)
	b.event = b.event[n:]
	return n, nil
}

// TestD06_AStreamingListWithoutItsEndIsAList takes half a minute, because that is how long
// adapters wait.
func TestD06_AStreamingListWithoutItsEndIsAList(t *testing.T) {
	t.Parallel()
	s := genuine(t)
	namespace := s.newNamespace(t)
	maps := s.kube(t).CoreV1().ConfigMaps(namespace)
	write := func(name string) {
		t.Helper()
		must[*corev1.ConfigMap](t)(maps.Create(patience.Context(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	write("a")

	byClientset := func(config *rest.Config) cache.ListerWatcher {
		clients := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
		return factory.ListWatch(clients, clients.CoreV1().ConfigMaps(namespace), nil)
	}
	byWire := func(config *rest.Config) cache.ListerWatcher {
		client := must[*wire.Client](t)(wire.New(config, wire.Options{}))
		t.Cleanup(client.CloseIdleConnections)
		return must[cache.ListerWatcher](t)(clientgo.NewListWatch(client, wire.MustOf[*corev1.ConfigMap](), clientgo.ListWatchOptions{Namespace: namespace}))
	}
	type mirror struct {
		cache.SharedInformer
		*swallower
	}
	ctx, cancel := context.WithCancel(t.Context())
	run := func(informer cache.SharedInformer, way *swallower) mirror {
		ran := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(ran) }()
		t.Cleanup(func() { cancel(); <-ran })
		return mirror{informer, way}
	}
	config, way := swallow(s.config)
	theirs := run(cache.NewSharedInformer(byClientset(config), &corev1.ConfigMap{}, 0), way)
	ours := map[string]mirror{}
	for name, lw := range map[string]func(*rest.Config) cache.ListerWatcher{"a clientset": byClientset, "the wire": byWire} {
		config, way := swallow(s.config)
		ours[name] = run(clientgo.NewSharedInformer(lw(config), &corev1.ConfigMap{}, 0), way)
	}

	for name, m := range ours {
		patience.Until(t, "synced by "+name, m.HasSynced)
	}
	write("b")
	for name, m := range ours {
		patience.Until(t, "a watch by "+name, func() bool { return len(m.GetStore().ListKeys()) == 2 })
		if m.streams.Load() == 0 || m.swallowed.Load() == 0 || m.lists.Load() != 1 {
			t.Errorf("by %s: %d streaming lists, of %d the end was swallowed, %d lists", name, m.streams.Load(), m.swallowed.Load(), m.lists.Load())
		}
	}
	if theirs.swallowed.Load() == 0 || theirs.HasSynced() || theirs.lists.Load() != 0 {
		t.Errorf("client-go swallowed %d, synced %v, %d lists: D06 is no difference", theirs.swallowed.Load(), theirs.HasSynced(), theirs.lists.Load())
	}
}
