package factory

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/wire"
)

// Options say what an informer mirrors and how. The zero Options are everything.
type Options struct {
	// Namespace restricts it to one namespace. With [Through] the function that is given
	// decides that. Defaults to all namespaces.
	Namespace string
	// Tweak may change the options of each request, as those of generated factories.
	// Defaults to none.
	Tweak func(*metav1.ListOptions)
	// Indexers are the indexes there are from the beginning. Defaults to that by
	// namespace, which generated informers have.
	Indexers cache.Indexers
	// Transform changes objects before they are kept. Defaults to none. A factory with a
	// transform of its own sets that instead.
	Transform cache.TransformFunc
	// Identifier names the informer in metrics. Defaults to none.
	Identifier cache.InformerNameAndResource
}

// From returns what the InformerFor of a generated factory takes: a function that makes an
// informer of a resource by Tarn's client. C is the factory's clientset, which is not used:
//
//	factory.From[versioned.Interface](client, wire.Custom[*v1alpha1.Foo](foos), factory.Options{})
//
// If the resource is not valid, the informer's list fails and its watch error handler gets the
// error.
func From[C any, T runtime.Object](client *wire.Client, res wire.Resource[T], opts Options) func(C, time.Duration) cache.SharedIndexInformer {
	return func(_ C, resync time.Duration) cache.SharedIndexInformer {
		lw := clientgo.NewLazyListWatch(func(context.Context) (cache.ListerWatcher, error) {
			return clientgo.NewListWatch(client, res, clientgo.ListWatchOptions{Namespace: opts.Namespace, Tweak: opts.Tweak})
		})
		return opts.informer(lw, res.New(), resync)
	}
}

// Typed is the part of a generated typed client that an informer needs. L is the type of
// its lists.
type Typed[L runtime.Object] interface {
	// List returns a list.
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	// Watch opens a watch.
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Through is [From] by the lists and watches of the factory's own clientset, which may be
// a fake. The example is an empty object of the type:
//
//	factory.Through(&v1alpha1.Foo{}, func(c versioned.Interface) factory.Typed[*v1alpha1.FooList] {
//		return c.SamplecontrollerV1alpha1().Foos("")
//	}, factory.Options{})
func Through[C any, L runtime.Object](example runtime.Object, typed func(C) Typed[L], opts Options) func(C, time.Duration) cache.SharedIndexInformer {
	return func(clientset C, resync time.Duration) cache.SharedIndexInformer {
		return opts.informer(ListWatch(clientset, typed(clientset), opts.Tweak), example, resync)
	}
}

// ListWatch makes a ListerWatcher of a typed client. The clientset is asked whether it is
// one that knows no streaming lists, as fakes do not.
func ListWatch[L runtime.Object](clientset any, typed Typed[L], tweak func(*metav1.ListOptions)) cache.ListerWatcher {
	if tweak == nil {
		tweak = func(*metav1.ListOptions) {}
	}
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		tweak(&opts)
		return typed.List(ctx, opts)
	}
	watch := func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		tweak(&opts)
		return typed.Watch(ctx, opts)
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  list,
		WatchFuncWithContext: watch,
	}, clientset)
}

func (o Options) informer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedIndexInformer {
	if o.Indexers == nil {
		o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
	informer := clientgo.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
		ResyncPeriod: resync,
		Indexers:     o.Indexers,
		Identifier:   o.Identifier,
	})
	if o.Transform != nil {
		_ = informer.SetTransform(o.Transform) // fails once it runs only
	}
	return informer
}
