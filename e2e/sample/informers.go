package sample

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"
)

// NewInformerFunc makes an informer for a factory.
type NewInformerFunc func(Interface, time.Duration) cache.SharedIndexInformer

// SharedInformerFactory is the factory, as informer-gen would make it.
type SharedInformerFactory struct {
	client        Interface
	namespace     string
	defaultResync time.Duration

	lock             sync.Mutex // guards what follows
	informers        map[reflect.Type]cache.SharedIndexInformer
	startedInformers map[reflect.Type]bool
	wg               sync.WaitGroup
}

// SharedInformerOption changes a factory.
type SharedInformerOption func(*SharedInformerFactory)

// WithNamespace restricts a factory to one namespace.
func WithNamespace(namespace string) SharedInformerOption {
	return func(f *SharedInformerFactory) { f.namespace = namespace }
}

// NewSharedInformerFactory returns a factory.
func NewSharedInformerFactory(client Interface, defaultResync time.Duration, options ...SharedInformerOption) *SharedInformerFactory {
	f := &SharedInformerFactory{
		client: client, defaultResync: defaultResync,
		informers: map[reflect.Type]cache.SharedIndexInformer{}, startedInformers: map[reflect.Type]bool{},
	}
	for _, option := range options {
		option(f)
	}
	return f
}

// StartWithContext starts the informers that were asked for, until the context ends.
func (f *SharedInformerFactory) StartWithContext(ctx context.Context) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for kind, informer := range f.informers {
		if !f.startedInformers[kind] {
			f.wg.Go(func() { informer.RunWithContext(ctx) })
			f.startedInformers[kind] = true
		}
	}
}

// Shutdown waits until the informers have ended.
func (f *SharedInformerFactory) Shutdown() { f.wg.Wait() }

// InformerFor returns the informer of a type, which newFunc makes if there is none yet.
func (f *SharedInformerFactory) InformerFor(obj runtime.Object, newFunc NewInformerFunc) cache.SharedIndexInformer {
	f.lock.Lock()
	defer f.lock.Unlock()
	kind := reflect.TypeOf(obj)
	informer, exists := f.informers[kind]
	if !exists {
		informer = newFunc(f.client, f.defaultResync)
		f.informers[kind] = informer
	}
	return informer
}

// Foos returns the informer of Foos.
func (f *SharedInformerFactory) Foos() *FooInformer { return &FooInformer{f} }

// FooInformer is the informer of Foos and their lister.
type FooInformer struct{ factory *SharedInformerFactory }

func (f *FooInformer) defaultInformer(client Interface, resync time.Duration) cache.SharedIndexInformer {
	foos := client.SamplecontrollerV1alpha1().Foos(f.factory.namespace)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return foos.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return foos.Watch(ctx, options)
		},
	}, &Foo{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// Informer returns the informer.
func (f *FooInformer) Informer() cache.SharedIndexInformer {
	return f.factory.InformerFor(&Foo{}, f.defaultInformer)
}

// Lister returns the lister.
func (f *FooInformer) Lister() FooLister { return NewFooLister(f.Informer().GetIndexer()) }

// FooLister reads Foos of the cache, as lister-gen would make it.
type FooLister interface {
	// List returns those that the selector selects.
	List(selector labels.Selector) ([]*Foo, error)
	// Foos returns the lister of a namespace.
	Foos(namespace string) FooNamespaceLister
}

// FooNamespaceLister reads Foos of one namespace.
type FooNamespaceLister interface {
	// List returns those that the selector selects.
	List(selector labels.Selector) ([]*Foo, error)
	// Get returns that of a name.
	Get(name string) (*Foo, error)
}

type fooLister struct{ listers.ResourceIndexer[*Foo] }

// NewFooLister returns a lister of what an indexer holds.
func NewFooLister(indexer cache.Indexer) FooLister {
	return &fooLister{listers.New[*Foo](indexer, Resource.GroupResource())}
}

// Foos implements [FooLister].
func (s *fooLister) Foos(namespace string) FooNamespaceLister {
	return listers.NewNamespaced(s.ResourceIndexer, namespace)
}
