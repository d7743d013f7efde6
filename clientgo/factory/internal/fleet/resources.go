package fleet

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Client is how a dynamic or metadata client is used: T is the type of its objects, L that
// of its lists. All fields are required.
type Client[T, L runtime.Object] struct {
	// Clientset is the client itself, which says whether it supports streaming lists.
	Clientset any
	// Example is an empty object.
	Example T
	// Typed reads a resource in a namespace with the clientset.
	Typed func(gvr schema.GroupVersionResource, namespace string) factory.Typed[L]
	// Wire describes a resource to Tarn's own client.
	Wire func(object.Resource) wire.Resource[T]
	// Lister returns the lister of a resource.
	Lister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
}

// Settings is what a factory's options set.
type Settings struct {
	// Wire is the client to read with. Defaults to none: the clientset reads.
	Wire *wire.Client
	// Transform is that of all informers. Defaults to none.
	Transform cache.TransformFunc
}

// Resources is a factory of informers by resource, whose objects all have one Go type. It
// implements the interfaces of client-go's dynamic and metadata factories.
type Resources struct {
	settings  Settings
	resync    time.Duration
	example   runtime.Object
	listWatch func(schema.GroupVersionResource) cache.ListerWatcher
	lister    func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
	fleet     Fleet[schema.GroupVersionResource]
}

// NewResources returns a factory for one namespace, or for all if it is empty. A tweak that
// is not nil may change the options of each request.
func NewResources[T, L runtime.Object, O ~func(*Settings)](client Client[T, L], resync time.Duration, namespace string, tweak func(*metav1.ListOptions), options []O) *Resources {
	f := &Resources{resync: resync, example: client.Example, lister: client.Lister}
	for _, option := range options {
		option(&f.settings)
	}
	if f.settings.Wire != nil {
		f.listWatch = byWire(f.settings.Wire, client.Wire, namespace, tweak)
	} else {
		f.listWatch = func(gvr schema.GroupVersionResource) cache.ListerWatcher {
			return factory.ListWatch(client.Clientset, client.Typed(gvr, namespace), tweak)
		}
	}
	return f
}

// ForResource returns the informer of a resource, which is created if there is none.
func (f *Resources) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	return f.With(gvr, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// With is ForResource with other indexers than that by namespace. They may be nil.
func (f *Resources) With(gvr schema.GroupVersionResource, indexers cache.Indexers) informers.GenericInformer {
	if indexers == nil {
		indexers = cache.Indexers{}
	}
	informer := f.fleet.Get(gvr, func() cache.SharedIndexInformer {
		informer := clientgo.NewSharedIndexInformerWithOptions(f.listWatch(gvr), f.example, cache.SharedIndexInformerOptions{
			ResyncPeriod: f.resync, Indexers: indexers, ObjectDescription: gvr.String(),
		})
		if f.settings.Transform != nil {
			_ = informer.SetTransform(f.settings.Transform) // fails only for one that runs
		}
		return informer
	})
	return generic{informer, func() cache.GenericLister { return f.lister(informer.GetIndexer(), gvr) }}
}

// Start runs all informers that do not run yet.
func (f *Resources) Start(stopCh <-chan struct{}) { f.fleet.Start(wait.ContextForChannel(stopCh)) }

// StartWithContext is Start until the context ends.
func (f *Resources) StartWithContext(ctx context.Context) { f.fleet.Start(ctx) }

// WaitForCacheSync waits for all that were started.
func (f *Resources) WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool {
	return f.fleet.WaitForSync(wait.ContextForChannel(stopCh))
}

// Shutdown waits until all have ended.
func (f *Resources) Shutdown() { f.fleet.Shutdown() }

type generic struct {
	informer cache.SharedIndexInformer
	lister   func() cache.GenericLister
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }
func (g generic) Lister() cache.GenericLister         { return g.lister() }

// byWire reads resources with Tarn's client. It asks the server for the kind of a resource
// before the first list, because the name does not contain it.
func byWire[T runtime.Object](client *wire.Client, describe func(object.Resource) wire.Resource[T], namespace string, tweak func(*metav1.ListOptions)) func(schema.GroupVersionResource) cache.ListerWatcher {
	discovery := wire.NewDiscovery(client)
	return func(gvr schema.GroupVersionResource) cache.ListerWatcher {
		return clientgo.NewLazyListWatch(func(ctx context.Context) (cache.ListerWatcher, error) {
			res, err := find(ctx, discovery, gvr)
			if err != nil {
				return nil, err
			}
			return clientgo.NewListWatch(client, describe(res), clientgo.ListWatchOptions{Namespace: namespace, Tweak: tweak})
		})
	}
}

// find asks the server what a resource is. One that is not there may be defined any moment,
// so the next call asks again.
func find(ctx context.Context, discovery *wire.Discovery, gvr schema.GroupVersionResource) (object.Resource, error) {
	all, err := discovery.All(ctx)
	for _, d := range all {
		if d.GVR() == gvr {
			return d.Resource, nil
		}
	}
	discovery.Invalidate()
	if err == nil {
		err = fmt.Errorf("the server has no resource %s", gvr)
	}
	return object.Resource{}, err
}
