// Package dynamicinformer stands in for k8s.io/client-go/dynamic/dynamicinformer: informers
// of any resource, whose objects are unstructured, with Tarn's informers in it. A program
// changes its import and no other line.
//
// A factory over a dynamic client reads by that client's own List and Watch. With
// [WithClient] it reads by way of Tarn's wire.
package dynamicinformer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/clientgo/factory/internal/fleet"
	"github.com/tarnproject/tarn/wire"
)

// DynamicSharedInformerFactory is client-go's interface of that name.
type DynamicSharedInformerFactory = dynamicinformer.DynamicSharedInformerFactory

// TweakListOptionsFunc is client-go's type of that name.
type TweakListOptionsFunc = dynamicinformer.TweakListOptionsFunc

// Option changes how a factory makes informers. client-go has none here.
type Option func(*fleet.Settings)

// WithClient makes informers read by way of Tarn's wire instead of by the dynamic client,
// which may then be nil.
func WithClient(client *wire.Client) Option { return func(s *fleet.Settings) { s.Wire = client } }

// NewDynamicSharedInformerFactory makes a factory for all namespaces.
func NewDynamicSharedInformerFactory(client dynamic.Interface, defaultResync time.Duration, options ...Option) DynamicSharedInformerFactory {
	return NewFilteredDynamicSharedInformerFactory(client, defaultResync, metav1.NamespaceAll, nil, options...)
}

// NewFilteredDynamicSharedInformerFactory makes a factory for one namespace, whose requests
// tweakListOptions may change.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc, options ...Option) DynamicSharedInformerFactory {
	return resources(client, defaultResync, namespace, tweakListOptions, options)
}

// NewFilteredDynamicInformer makes one informer.
func NewFilteredDynamicInformer(client dynamic.Interface, gvr schema.GroupVersionResource, namespace string, resyncPeriod time.Duration, indexers cache.Indexers, tweakListOptions TweakListOptionsFunc, options ...Option) informers.GenericInformer {
	return resources(client, resyncPeriod, namespace, tweakListOptions, options).With(gvr, indexers)
}

func resources(client dynamic.Interface, resync time.Duration, namespace string, tweak TweakListOptionsFunc, options []Option) *fleet.Resources {
	return fleet.NewResources(fleet.Client[*unstructured.Unstructured, *unstructured.UnstructuredList]{
		Clientset: client,
		Example:   &unstructured.Unstructured{},
		Typed: func(gvr schema.GroupVersionResource, namespace string) factory.Typed[*unstructured.UnstructuredList] {
			return client.Resource(gvr).Namespace(namespace)
		},
		Wire: wire.Unstructured,
		Lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
		},
	}, resync, namespace, tweak, options)
}
