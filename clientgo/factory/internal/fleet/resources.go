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
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Resources is a factory of informers by resource, whose objects all have one Go type.
// ListWatch, Lister and Example are required. It implements the interfaces of client-go's
// dynamic and metadata factories.
type Resources struct {
	// Example is an empty object.
	Example runtime.Object
	// ListWatch says how a resource is read.
	ListWatch func(schema.GroupVersionResource) cache.ListerWatcher
	// Lister makes the lister of a resource.
	Lister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
	// Resync is the period of all informers. Defaults to none.
	Resync time.Duration
	// Indexers are those of all informers. Defaults to that by namespace.
	Indexers cache.Indexers
	// Transform is that of all informers. Defaults to none.
	Transform cache.TransformFunc
	// Behaviour is that of all informers. Defaults to client-go's.
	Behaviour clientgo.Behaviour

	fleet Fleet[schema.GroupVersionResource]
}

// ForResource returns the informer of a resource, which is made if there is none.
func (f *Resources) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	informer := f.fleet.Get(gvr, func() cache.SharedIndexInformer { return f.informer(gvr) })
	return generic{informer, func() cache.GenericLister { return f.Lister(informer.GetIndexer(), gvr) }}
}

func (f *Resources) informer(gvr schema.GroupVersionResource) cache.SharedIndexInformer {
	indexers := f.Indexers
	if indexers == nil {
		indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
	informer := clientgo.NewSharedIndexInformerWithBehaviour(f.ListWatch(gvr), f.Example, cache.SharedIndexInformerOptions{
		ResyncPeriod: f.Resync, Indexers: indexers, ObjectDescription: gvr.String(),
	}, f.Behaviour)
	if f.Transform != nil {
		_ = informer.SetTransform(f.Transform) // fails for one that runs only
	}
	return informer
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

// Informer implements informers.GenericInformer.
func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

// Lister implements informers.GenericInformer.
func (g generic) Lister() cache.GenericLister { return g.lister() }

// ByWire returns how resources are read by way of the wire. A resource's name does not tell
// its kind, so the server is asked for that, when the first list is due.
func ByWire[T runtime.Object](client *wire.Client, describe func(object.Resource) wire.Resource[T], namespace string, tweak func(*metav1.ListOptions)) func(schema.GroupVersionResource) cache.ListerWatcher {
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
