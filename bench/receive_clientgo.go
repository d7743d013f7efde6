package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	codecs "k8s.io/apimachinery/pkg/runtime/serializer"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/bench/crds"
)

func newReceiver(j job) receiver {
	if j.Side == sideClientGo {
		return newClientGo(j.Replay)
	}
	return newTarn(j.Replay)
}

// clientGo receives with client-go's reflector and clients: typed for pods, dynamic or
// typed for custom resources.
type clientGo struct {
	replay replay
	lw     *cache.ListWatch
	kind   runtime.Object
}

func newClientGo(r replay) *clientGo {
	cfg := r.config()
	if r.Resource == releaseResource && r.Typed {
		// As generated clients and controller-runtime's do.
		scheme := runtime.NewScheme()
		crds.AddToScheme(scheme)
		gv := crds.Resource.GVR().GroupVersion()
		cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
		cfg.NegotiatedSerializer = codecs.NewCodecFactory(scheme).WithoutConversion()
		c, err := rest.RESTClientFor(cfg)
		check(err)
		return &clientGo{replay: r, kind: &crds.Release{}, lw: cache.NewListWatchFromClient(c, releaseResource, metav1.NamespaceAll, fields.Everything())}
	}
	if r.Resource == releaseResource {
		c, err := dynamic.NewForConfig(cfg)
		check(err)
		res := c.Resource(crds.Resource.GVR())
		return &clientGo{
			replay: r,
			kind:   &unstructured.Unstructured{},
			lw: &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return res.List(ctx, o)
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
					return res.Watch(ctx, o)
				},
			},
		}
	}
	cfg.ContentType = runtime.ContentTypeJSON
	if r.Encoding == protobufEncoding {
		cfg.ContentType = runtime.ContentTypeProtobuf
	}
	cfg.AcceptContentTypes = cfg.ContentType
	c, err := typedcorev1.NewForConfig(cfg)
	check(err)
	res := c.Pods(metav1.NamespaceAll)
	return &clientGo{
		replay: r,
		kind:   &corev1.Pod{},
		lw: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return res.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
				return res.Watch(ctx, o)
			},
		},
	}
}

func (c *clientGo) early() bool { return c.replay.Way == byStream }

// listOnly makes a reflector use LIST instead of a streaming list.
type listOnly struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported disables streaming lists in the reflector.
func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func (c *clientGo) all(ctx context.Context, got func(arrived)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	into := &collector{drop: c.replay.Drop, stream: c.early(), got: got, cancel: cancel}
	var lw cache.ListerWatcher = c.lw
	if !c.early() {
		lw = listOnly{c.lw}
	}
	r := cache.NewReflectorWithOptions(lw, c.kind, into, cache.ReflectorOptions{Name: "bench"})
	if c.replay.Way == byPages {
		r.WatchListPageSize = pageSize
	}
	if err := r.ListAndWatchWithContext(ctx); err != nil {
		return err
	}
	if !into.replaced {
		return errors.New("client-go's reflector gave up")
	}
	return nil
}

func (c *clientGo) events(ctx context.Context, got func(arrived)) error {
	w, err := c.lw.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if ev.Type == apiwatch.Error {
			return apierrors.FromObject(ev.Object)
		}
		o := ev.Object.(metav1.Object)
		if c.replay.Drop {
			o.SetManagedFields(nil)
		}
		got(arrivedObject(o))
	}
	return nil
}

// collector is a store for a reflector. It receives one list and then stops the reflector.
type collector struct {
	drop, stream bool
	got          func(arrived)
	cancel       func()
	replaced     bool
}

// Transformer is for streaming lists: the reflector calls it for each object as it arrives.
func (c *collector) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o := obj.(metav1.Object)
		if c.drop {
			o.SetManagedFields(nil)
		}
		if c.stream {
			c.got(arrivedObject(o))
		}
		return obj, nil
	}
}

// Replace receives the list.
func (c *collector) Replace(objs []any, _ string) error {
	if !c.stream {
		for _, obj := range objs {
			o := obj.(metav1.Object)
			if c.drop {
				o.SetManagedFields(nil)
			}
			c.got(arrivedObject(o))
		}
	}
	c.replaced = true
	c.cancel()
	return nil
}

func (c *collector) unexpected(obj any) error { return fmt.Errorf("unexpected event of a %T", obj) }

// Add, Update, Delete and Resync are never called: there are no events after the list.
func (c *collector) Add(obj any) error    { return c.unexpected(obj) }
func (c *collector) Update(obj any) error { return c.unexpected(obj) }
func (c *collector) Delete(obj any) error { return c.unexpected(obj) }
func (c *collector) Resync() error        { return nil }
