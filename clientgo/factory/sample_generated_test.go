package factory_test

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// The clientset, as client-gen would make it.

type sampleClientset interface {
	SamplecontrollerV1alpha1() sampleV1alpha1
}

type sampleV1alpha1 interface {
	Foos(namespace string) fooInterface
}

type fooInterface interface {
	Create(ctx context.Context, foo *Foo, opts metav1.CreateOptions) (*Foo, error)
	Update(ctx context.Context, foo *Foo, opts metav1.UpdateOptions) (*Foo, error)
	UpdateStatus(ctx context.Context, foo *Foo, opts metav1.UpdateOptions) (*Foo, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*Foo, error)
	List(ctx context.Context, opts metav1.ListOptions) (*FooList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

type sampleClient struct{ client rest.Interface }

func newSampleClientset(config *rest.Config) (sampleClientset, error) {
	scheme := runtime.NewScheme()
	if err := addSampleToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &sampleVersion, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	return &sampleClient{client}, err
}

func (c *sampleClient) SamplecontrollerV1alpha1() sampleV1alpha1 { return c }

func (c *sampleClient) Foos(namespace string) fooInterface {
	return gentype.NewClientWithList("foos", c.client, metav1.ParameterCodec, namespace,
		func() *Foo { return &Foo{} }, func() *FooList { return &FooList{} })
}

// The informers, as informer-gen would make them.

type newInformerFunc func(sampleClientset, time.Duration) cache.SharedIndexInformer

type sampleFactory struct {
	client           sampleClientset
	lock             sync.Mutex
	defaultResync    time.Duration
	informers        map[reflect.Type]cache.SharedIndexInformer
	startedInformers map[reflect.Type]bool
	wg               sync.WaitGroup
}

func newSampleFactory(client sampleClientset, defaultResync time.Duration) *sampleFactory {
	return &sampleFactory{
		client: client, defaultResync: defaultResync,
		informers: map[reflect.Type]cache.SharedIndexInformer{}, startedInformers: map[reflect.Type]bool{},
	}
}

func (f *sampleFactory) StartWithContext(ctx context.Context) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for kind, informer := range f.informers {
		if !f.startedInformers[kind] {
			f.wg.Go(func() { informer.RunWithContext(ctx) })
			f.startedInformers[kind] = true
		}
	}
}

func (f *sampleFactory) Shutdown() { f.wg.Wait() }

func (f *sampleFactory) InformerFor(obj runtime.Object, newFunc newInformerFunc) cache.SharedIndexInformer {
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

func (f *sampleFactory) Foos() *fooInformer { return &fooInformer{f} }

type fooInformer struct{ factory *sampleFactory }

func newFooInformer(client sampleClientset, resync time.Duration) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.SamplecontrollerV1alpha1().Foos("").List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.SamplecontrollerV1alpha1().Foos("").Watch(ctx, options)
		},
	}, &Foo{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func (f *fooInformer) Informer() cache.SharedIndexInformer {
	return f.factory.InformerFor(&Foo{}, newFooInformer)
}

func (f *fooInformer) Lister() fooLister { return newFooLister(f.Informer().GetIndexer()) }

// The lister, as lister-gen would make it.

type fooLister interface {
	List(selector labels.Selector) ([]*Foo, error)
	Foos(namespace string) fooNamespaceLister
}

type fooNamespaceLister interface {
	List(selector labels.Selector) ([]*Foo, error)
	Get(name string) (*Foo, error)
}

type foosLister struct{ listers.ResourceIndexer[*Foo] }

func newFooLister(indexer cache.Indexer) fooLister {
	return &foosLister{listers.New[*Foo](indexer, fooResource.GroupResource())}
}

func (s *foosLister) Foos(namespace string) fooNamespaceLister {
	return listers.NewNamespaced(s.ResourceIndexer, namespace)
}
