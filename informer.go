package tarn

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/wire"
)

// Pointer is a pointer to an API type X, such as *corev1.Pod. The compiler infers X.
type Pointer[X any] interface {
	*X
	metav1.Object
}

// Informer returns a handle on the cluster's mirror of a built-in kind, identified by its Go
// type, and creates the mirror if there is none:
//
//	pods, err := tarn.Informer[*corev1.Pod](cluster, tarn.WithIndex(byNode))
//
// It may be called before and during [Cluster.Run]. Close the handle when the mirror is no
// longer needed. The error is a [*ConflictError], [ErrStopped], or names the invalid option.
func Informer[P Pointer[X], X any](c *Cluster, opts ...Option) (*Handle[*X], error) {
	site := callSite()
	res, err := wire.Of[*X]()
	if err != nil {
		return nil, fmt.Errorf("tarn: informer at %s: %w; use tarn.InformerOf", site, err)
	}
	return attach[P](c, site, res, opts)
}

// InformerOf is [Informer] for a described resource: a custom resource with a Go type
// (wire.Custom) or without one (wire.Unstructured), or only the metadata of any resource
// (wire.Metadata). If the server does not serve it, the mirror waits until it does.
func InformerOf[X any, P Pointer[X]](c *Cluster, res wire.Resource[*X], opts ...Option) (*Handle[*X], error) {
	return attach[P](c, callSite(), res, opts)
}

// InformerByName is [InformerOf] for a resource name as kubectl accepts it: "pods",
// "deploy", "widgets.example.com". It uses the server's discovery. The error is a
// *wire.UnknownResourceError, with suggestions, if there is no such resource.
func InformerByName(ctx context.Context, c *Cluster, name string, opts ...Option) (*Handle[*unstructured.Unstructured], error) {
	site := callSite()
	found, err := c.discovery.Find(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("tarn: informer at %s: %w", site, err)
	}
	return attach[*unstructured.Unstructured](c, site, wire.Unstructured(found.Resource), opts)
}

// MetadataByName is [InformerByName] for the metadata only; the server omits the rest.
func MetadataByName(ctx context.Context, c *Cluster, name string, opts ...Option) (*Handle[*metav1.PartialObjectMetadata], error) {
	site := callSite()
	found, err := c.discovery.Find(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("tarn: informer at %s: %w", site, err)
	}
	return attach[*metav1.PartialObjectMetadata](c, site, wire.Metadata(found.Resource), opts)
}

// callSite returns the file and line of the nearest caller outside this package.
func callSite() string { return callsite.Outside("github.com/tarnproject/tarn") }
