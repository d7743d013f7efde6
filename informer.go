package tarn

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/wire"
)

// Pointer is a pointer to an API type X, such as *corev1.Pod. X follows from it and is
// never written.
type Pointer[X any] interface {
	*X
	metav1.Object
}

// Informer returns a handle on the cluster's mirror of a built-in kind, known by its Go
// type, and makes the mirror if there is none:
//
//	pods, err := tarn.Informer[*corev1.Pod](cluster, tarn.WithIndex(byNode))
//
// It may be called before and during [Cluster.Run]. The handle is to be closed when the
// mirror is not needed any more. The errors are a [*ConflictError], [ErrStopped], or say
// which option cannot be met.
func Informer[P Pointer[X], X any](c *Cluster, opts ...Option) (*Handle[*X], error) {
	site := callSite()
	res, err := wire.Of[*X]()
	if err != nil {
		return nil, fmt.Errorf("tarn: informer at %s: %w; then use tarn.InformerOf", site, err)
	}
	return attach[P](c, site, res, opts)
}

// InformerOf is [Informer] for a resource that is described by a value: a custom resource
// with a Go type (wire.Custom), without one (wire.Unstructured), or the metadata alone of
// any resource (wire.Metadata). If the server does not serve it, the mirror waits until it
// does.
func InformerOf[X any, P Pointer[X]](c *Cluster, res wire.Resource[*X], opts ...Option) (*Handle[*X], error) {
	return attach[P](c, callSite(), res, opts)
}

// InformerByName is [InformerOf] for a resource that the server knows by a name as people
// write it: "pods", "deploy", "widgets.example.com". It asks the server's discovery; the
// error is a *wire.UnknownResourceError, with suggestions, if there is none of that name.
func InformerByName(ctx context.Context, c *Cluster, name string, opts ...Option) (*Handle[*unstructured.Unstructured], error) {
	site := callSite()
	found, err := c.discovery.Find(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("tarn: informer at %s: %w", site, err)
	}
	return attach[*unstructured.Unstructured](c, site, wire.Unstructured(found.Resource), opts)
}

// MetadataByName is [InformerByName] for the metadata alone: the server leaves the rest
// out.
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
