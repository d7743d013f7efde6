package informers

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/clientgo/factory/internal/fleet"
	"github.com/tarnproject/tarn/wire"
)

// SharedInformerFactory is client-go's interface of that name.
type SharedInformerFactory = informers.SharedInformerFactory

// GenericInformer is client-go's interface of that name.
type GenericInformer = informers.GenericInformer

// SharedInformerOption changes how a factory makes informers. client-go's type of that
// name works on its own factory only, so that its functions are here again.
type SharedInformerOption func(*shared)

// WithCustomResyncConfig sets a resync period for some types.
func WithCustomResyncConfig(resyncConfig map[metav1.Object]time.Duration) SharedInformerOption {
	return func(f *shared) {
		for example, period := range resyncConfig {
			f.resyncs[reflect.TypeOf(example)] = period
		}
	}
}

// WithTweakListOptions changes the options of every request.
func WithTweakListOptions(tweak internalinterfaces.TweakListOptionsFunc) SharedInformerOption {
	return func(f *shared) { f.tweak = tweak }
}

// WithNamespace restricts the factory to one namespace. Kinds without namespaces are not
// affected.
func WithNamespace(namespace string) SharedInformerOption {
	return func(f *shared) { f.namespace = namespace }
}

// WithTransform sets a transform on all informers.
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return func(f *shared) { f.transform = transform }
}

// WithInformerName names the informers in metrics.
func WithInformerName(name *cache.InformerName) SharedInformerOption {
	return func(f *shared) { f.name = name }
}

// WithClient makes informers read by way of Tarn's wire instead of by the clientset. It is
// Tarn's own option. Informers that a program makes itself, for InformerFor, are not
// affected.
func WithClient(client *wire.Client) SharedInformerOption {
	return func(f *shared) { f.wire = client }
}

// NewSharedInformerFactory makes a factory for all namespaces.
func NewSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync)
}

// NewFilteredSharedInformerFactory makes a factory for one namespace, whose requests tweak
// may change. client-go deprecates it in favour of NewSharedInformerFactoryWithOptions.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration, namespace string, tweak internalinterfaces.TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewSharedInformerFactoryWithOptions makes a factory with options.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	f := &shared{client: client, resync: defaultResync, resyncs: map[reflect.Type]time.Duration{}}
	for _, option := range options {
		option(f)
	}
	f.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(client, defaultResync,
		informers.WithNamespace(f.namespace), informers.WithTweakListOptions(f.tweak), informers.WithTransform(f.transform))
	return f
}

// NewSharedInformerFactoryForConfig makes a factory that reads the server of the config by
// way of Tarn's wire. It is Tarn's own.
func NewSharedInformerFactoryForConfig(config *rest.Config, defaultResync time.Duration, options ...SharedInformerOption) (SharedInformerFactory, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("informers: clientset: %w", err)
	}
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		return nil, fmt.Errorf("informers: %w", err)
	}
	return NewSharedInformerFactoryWithOptions(clientset, defaultResync, append(options, WithClient(client))...), nil
}

// shared is a factory. Its fields do not change after its options have been applied.
type shared struct {
	// SharedInformerFactory is client-go's own, for the groups that this package does not know.
	SharedInformerFactory

	client    kubernetes.Interface
	wire      *wire.Client // nil: by the clientset
	namespace string
	tweak     internalinterfaces.TweakListOptionsFunc
	resync    time.Duration
	resyncs   map[reflect.Type]time.Duration
	transform cache.TransformFunc
	name      *cache.InformerName

	fleet fleet.Fleet[reflect.Type]
}

func (f *shared) InformerName() *cache.InformerName { return f.name }
func (f *shared) Start(stopCh <-chan struct{})      { f.StartWithContext(wait.ContextForChannel(stopCh)) }

func (f *shared) StartWithContext(ctx context.Context) {
	f.fleet.Start(ctx)
	f.SharedInformerFactory.Start(ctx.Done())
}

func (f *shared) Shutdown() {
	f.fleet.Shutdown()
	f.SharedInformerFactory.Shutdown()
	f.name.Release()
}

func (f *shared) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return f.waitForSync(wait.ContextForChannel(stopCh))
}

func (f *shared) waitForSync(ctx context.Context) map[reflect.Type]bool {
	synced := f.fleet.WaitForSync(ctx)
	maps.Copy(synced, f.SharedInformerFactory.WaitForCacheSync(ctx.Done()))
	return synced
}

func (f *shared) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	result := cache.SyncResult{Synced: f.waitForSync(ctx)}
	for _, synced := range result.Synced {
		if !synced {
			result.Err = context.Cause(ctx)
		}
	}
	return result
}

// InformerFor implements [SharedInformerFactory]. What newFunc makes is used as it is: a
// program that passes one wants its own selectors or indexes.
func (f *shared) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(obj)
	return f.fleet.Get(kind, func() cache.SharedIndexInformer {
		informer := newFunc(f.client, f.resyncOf(kind))
		if f.transform != nil {
			_ = informer.SetTransform(f.transform) // fails only for one that runs already, as in client-go
		}
		return informer
	})
}

func (f *shared) resyncOf(kind reflect.Type) time.Duration {
	if period, ok := f.resyncs[kind]; ok {
		return period
	}
	return f.resync
}

// own is the factory as the generated informers of client-go see it: they ask it for
// informers with a function that makes client-go's, and get ours.
type own struct{ *shared }

func (f own) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	k, ok := kinds().types[reflect.TypeOf(obj)]
	if !ok {
		return f.shared.InformerFor(obj, newFunc)
	}
	return f.shared.InformerFor(obj, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformerWithOptions(f.listWatch(k, obj), obj, cache.SharedIndexInformerOptions{
			ResyncPeriod: resync,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			Identifier:   f.name.WithResource(k.resource),
		})
	})
}

// listWatch returns how a kind is read. Newer kinds than the wire knows are read by the
// clientset in any case.
func (f own) listWatch(k kind, example runtime.Object) cache.ListerWatcher {
	namespace := f.namespace
	if !k.namespaced {
		namespace = ""
	}
	if f.wire != nil {
		if res, ok := wire.ResourceOf(example); ok {
			lw, err := clientgo.NewListWatch(f.wire, wire.Like(res, example), clientgo.ListWatchOptions{Namespace: namespace, Tweak: f.tweak})
			if err == nil {
				return lw
			}
		}
	}
	return factory.ListWatch(f.client, k.client(f.client, namespace), f.tweak)
}

func (f *shared) ForResource(resource schema.GroupVersionResource) (GenericInformer, error) {
	k, ok := kinds().resources[resource]
	if !ok {
		return nil, fmt.Errorf("no informer found for %v", resource)
	}
	return generic{own{f}.InformerFor(k.example(), nil), resource.GroupResource()}, nil
}

// generic is an informer whose type only its user knows.
type generic struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
