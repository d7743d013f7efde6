// Package metadatainformer stands in for k8s.io/client-go/metadata/metadatainformer:
// informers of any resource that hold the metadata of its objects only, with Tarn's
// informers in it. A program changes its import and no other line.
//
// A factory over a metadata client reads by that client's own List and Watch. With
// [WithClient] it reads by way of Tarn's wire.
package metadatainformer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/clientgo/factory/internal/fleet"
	"github.com/tarnproject/tarn/wire"
)

// SharedInformerFactory is client-go's interface of that name.
type SharedInformerFactory = metadatainformer.SharedInformerFactory

// TweakListOptionsFunc is client-go's type of that name.
type TweakListOptionsFunc = metadatainformer.TweakListOptionsFunc

// SharedInformerOption changes how a factory makes informers. client-go's type of that
// name works on its own factory only, so that its functions are here again.
type SharedInformerOption func(*fleet.Settings)

// WithTransform sets a transform on all informers.
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return func(s *fleet.Settings) { s.Transform = transform }
}

// WithClient makes informers read by way of Tarn's wire instead of by the metadata client,
// which may then be nil. It is Tarn's own option.
func WithClient(client *wire.Client) SharedInformerOption {
	return func(s *fleet.Settings) { s.Wire = client }
}

// NewSharedInformerFactory makes a factory for all namespaces.
func NewSharedInformerFactory(client metadata.Interface, defaultResync time.Duration) SharedInformerFactory {
	return NewFilteredSharedInformerFactory(client, defaultResync, metav1.NamespaceAll, nil)
}

// NewFilteredSharedInformerFactory makes a factory for one namespace, whose requests
// tweakListOptions may change.
func NewFilteredSharedInformerFactory(client metadata.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) SharedInformerFactory {
	return resources(client, defaultResync, namespace, tweakListOptions, nil)
}

// NewSharedInformerFactoryWithOptions makes a factory with options.
func NewSharedInformerFactoryWithOptions(client metadata.Interface, defaultResync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return resources(client, defaultResync, metav1.NamespaceAll, nil, options)
}

// NewFilteredMetadataInformer makes one informer.
func NewFilteredMetadataInformer(client metadata.Interface, gvr schema.GroupVersionResource, namespace string, resyncPeriod time.Duration, indexers cache.Indexers, tweakListOptions TweakListOptionsFunc) informers.GenericInformer {
	return resources(client, resyncPeriod, namespace, tweakListOptions, nil).With(gvr, indexers)
}

func resources(client metadata.Interface, resync time.Duration, namespace string, tweak TweakListOptionsFunc, options []SharedInformerOption) *fleet.Resources {
	return fleet.NewResources(fleet.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
		Clientset: client,
		Example:   &metav1.PartialObjectMetadata{},
		Typed: func(gvr schema.GroupVersionResource, namespace string) factory.Typed[*metav1.PartialObjectMetadataList] {
			return client.Resource(gvr).Namespace(namespace)
		},
		Wire: wire.Metadata,
		Lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
		},
	}, resync, namespace, tweak, options)
}
