package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// The resources that are written.
var (
	configMaps = object.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods       = object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	widgets    = object.Resource{Group: "chaos.example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
)

// namespaces are where the writers write; the first has the canaries.
var namespaces = []string{"chaos-a", "chaos-b", "chaos-c"}

// quick makes failures cost little time.
var quick = reflector.Backoff{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}

// ensemble is all the forms and what runs them.
type ensemble struct {
	forms    []form
	clusters []*tarn.Cluster
	clients  []*wire.Client
	gate     sync.RWMutex // locked while slow subscribers are to wait
	rewinds  atomic.Int64 // how often the server's history was restored
}

// assemble makes the forms. The first config leads through a proxy by HTTP/2, where all
// share one connection, the second by HTTP/1.1, where each watch has its own; the third is
// the way without faults, for the lists to compare with.
func assemble(ctx context.Context, h2, h1, direct *rest.Config) (*ensemble, error) {
	e := &ensemble{}
	truth, err := newTruth(direct)
	if err != nil {
		return nil, err
	}
	a, err := e.client(h2)
	if err != nil {
		return nil, err
	}
	b, err := e.client(h1)
	if err != nil {
		return nil, err
	}
	clusterA, err := e.cluster(h2, reflector.StreamingAuto)
	if err != nil {
		return nil, err
	}
	clusterB, err := e.cluster(h1, reflector.StreamingOff)
	if err != nil {
		return nil, err
	}

	maps := wire.MustOf[*corev1.ConfigMap]()
	return e, firstOf(
		func() error {
			return add(e, a, maps, reflector.StreamingAuto, nil, "decoded", marshal, configMapsBy(truth.typed))
		},
		func() error {
			return add(e, b, wire.Metadata(configMaps), reflector.StreamingOff, nil, "metadata", marshal, truth.metadata(configMaps))
		},
		func() error {
			return add(e, b, wire.Unstructured(configMaps), reflector.StreamingAuto, nil, "unstructured", marshalUnstructured, truth.unstructured(configMaps))
		},
		func() error {
			return add(e, b, maps.Encoded(wire.JSON), reflector.StreamingAuto, namespaces[:2], "two namespaces, JSON", marshal, configMapsBy(truth.json))
		},
		func() error {
			return add(e, a, maps, reflector.StreamingOff, namespaces, "three namespaces", marshal, configMapsBy(truth.typed))
		},
		func() error {
			h, err := tarn.MirrorOf[*corev1.ConfigMap](clusterA, tarn.Compact(), tarn.KeepManagedFields())
			return join(e, h, err, configMaps, "compact", marshal, configMapsBy(truth.typed))
		},
		func() error {
			h, err := tarn.MirrorOf[*corev1.Pod](clusterA, tarn.KeepManagedFields())
			return join(e, h, err, pods, "decoded", marshal, truth.pods)
		},
		func() error {
			h, err := tarn.MirrorOf[*corev1.Pod](clusterB, tarn.Compact(), tarn.KeepManagedFields())
			return join(e, h, err, pods, "compact", marshal, truth.pods)
		},
		func() error {
			h, err := tarn.MirrorByName(ctx, clusterA, "widgets", tarn.KeepManagedFields())
			return join(e, h, err, widgets, "unstructured", marshalUnstructured, truth.unstructured(widgets))
		},
		func() error {
			h, err := tarn.MirrorMetadata(ctx, clusterB, "widgets", tarn.Compact(), tarn.KeepManagedFields())
			return join(e, h, err, widgets, "metadata, compact", marshal, truth.metadata(widgets))
		},
		func() error {
			adapter, err := newAdapter(a, configMapsBy(truth.typed))
			e.forms = append(e.forms, adapter)
			return err
		},
	)
}

func firstOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensemble) client(config *rest.Config) (*wire.Client, error) {
	c, err := wire.New(config, wire.Options{})
	if err == nil {
		e.clients = append(e.clients, c)
	}
	return c, err
}

func (e *ensemble) cluster(config *rest.Config, streaming reflector.Mode) (*tarn.Cluster, error) {
	c, err := tarn.Connect(tarn.WithConfig(config), tarn.WithTuning(tarn.Tuning{Streaming: streaming, Backoff: quick}))
	if err == nil {
		e.clusters = append(e.clusters, c)
		e.clients = append(e.clients, c.Client())
	}
	return c, err
}

// add adds a form that is an informer by itself. Its log is short, so that slow subscribers
// fall off it, and its watches give up early on a connection that is held back.
func add[T metav1.Object](e *ensemble, client *wire.Client, res wire.Resource[T], streaming reflector.Mode, in []string, name string, encode func(T) ([]byte, error), list lister) error {
	source, err := stream.NewSource(wire.For(client, res), object.Selection{}, stream.Options{})
	if err != nil {
		return err
	}
	inf, err := informer.New(source, object.Meta[T](), informer.Options[T]{
		Name: name, Namespaces: in, Log: 32,
		Reflector: reflector.Options[T]{Streaming: streaming, Backoff: quick, Silence: 2 * time.Second, PageSize: 50},
	})
	if err != nil {
		return err
	}
	m, err := newMirror(e, res.Resource.String(), name, inf, in, encode, list)
	if err == nil {
		m.runs = inf.Run
		e.forms = append(e.forms, m)
	}
	return err
}

// join adds a form that a cluster runs.
func join[T tarn.Object](e *ensemble, h *tarn.Mirror[T], err error, res object.Resource, name string, encode func(T) ([]byte, error), list lister) error {
	if err != nil {
		return err
	}
	m, err := newMirror(e, res.String(), name+" (cluster)", h.Informer(), nil, encode, list)
	if err == nil {
		e.forms = append(e.forms, m)
	}
	return err
}

// run runs everything until the context is done.
func (e *ensemble) run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make(chan error, len(e.clusters)+len(e.forms))
	for _, c := range e.clusters {
		all.Go(func() { errs <- c.Run(ctx) })
	}
	for _, f := range e.forms {
		all.Go(func() { errs <- f.run(ctx) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// marshal encodes what has a protobuf form. Maps are sorted in it.
func marshal[T metav1.Object](obj T) ([]byte, error) {
	return any(obj).(interface{ Marshal() ([]byte, error) }).Marshal()
}

func marshalUnstructured(obj *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(obj.Object)
}

// truth reads the server with client-go, which has no code in common with what it is
// compared with.
type truth struct {
	typed, json *kubernetes.Clientset
	dynamic     *dynamic.DynamicClient
	partial     metadata.Interface
}

func newTruth(config *rest.Config) (*truth, error) {
	proto := rest.CopyConfig(config)
	proto.ContentType = "application/vnd.kubernetes.protobuf"
	plain := rest.CopyConfig(config)
	plain.ContentType, plain.AcceptContentTypes = "application/json", "application/json"
	t := &truth{}
	return t, firstOf(
		func() (err error) { t.typed, err = kubernetes.NewForConfig(proto); return err },
		func() (err error) { t.json, err = kubernetes.NewForConfig(plain); return err },
		func() (err error) { t.dynamic, err = dynamic.NewForConfig(config); return err },
		func() (err error) { t.partial, err = metadata.NewForConfig(config); return err },
	)
}

func configMapsBy(clients *kubernetes.Clientset) lister {
	return func(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error) {
		list, err := clients.CoreV1().ConfigMaps(string(in)).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		return encoded(pointers(list.Items), marshal[*corev1.ConfigMap])
	}
}

func (t *truth) pods(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error) {
	list, err := t.typed.CoreV1().Pods(string(in)).List(ctx, opts)
	if err != nil {
		return nil, err
	}
	return encoded(pointers(list.Items), marshal[*corev1.Pod])
}

func (t *truth) metadata(res object.Resource) lister {
	return func(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error) {
		list, err := t.partial.Resource(res.GVR()).Namespace(string(in)).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		return encoded(pointers(list.Items), marshal[*metav1.PartialObjectMetadata])
	}
}

func (t *truth) unstructured(res object.Resource) lister {
	return func(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error) {
		list, err := t.dynamic.Resource(res.GVR()).Namespace(string(in)).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", res, err)
		}
		return encoded(pointers(list.Items), marshalUnstructured)
	}
}

// pointers yields pointers to the elements of a slice.
func pointers[X any](all []X) func(yield func(*X) bool) {
	return func(yield func(*X) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}
