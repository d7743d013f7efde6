package tarn

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Object is a Kubernetes object: a pointer to an API type, such as *corev1.Pod.
type Object = controller.Object

// Pointer is an [Object] that is a pointer to X. The compiler infers X.
type Pointer[X any] interface {
	*X
	Object
}

// MirrorOf returns the cluster's mirror of a kind, identified by its Go type, and creates it
// if there is none:
//
//	pods, err := tarn.MirrorOf[*corev1.Pod](cluster, tarn.InNamespaces("shop"))
//
// The kind is built in, or its type has a method APIResource() object.Resource. It may be
// called before and during [Cluster.Run]. Close the mirror when it is no longer needed. The
// error is a [*ConflictError], [ErrStopped], or names the invalid option.
func MirrorOf[P Pointer[X], X any](c *Cluster, opts ...Option) (*Mirror[P], error) {
	site := callSite()
	res, err := wire.Of[P]()
	if err != nil {
		return nil, fmt.Errorf("tarn: mirror at %s: %w", site, err)
	}
	return attach(c, site, res, nil, opts)
}

// MirrorResource is [MirrorOf] for a described resource: a custom resource with a Go type
// (wire.Custom) or without one (wire.Unstructured), or only the metadata of any resource
// (wire.Metadata). If the server does not serve it, the mirror waits until it does.
func MirrorResource[P Object](c *Cluster, res wire.Resource[P], opts ...Option) (*Mirror[P], error) {
	return attach(c, callSite(), res, nil, opts)
}

// MirrorTransformed is [MirrorResource] with a transform, which runs on every object before it
// is stored. All users of a mirror must use the same one. A nil transform changes nothing.
func MirrorTransformed[P Object](c *Cluster, res wire.Resource[P], t *Transform[P], opts ...Option) (*Mirror[P], error) {
	return attach(c, callSite(), res, t, opts)
}

// MirrorByName is [MirrorResource] for a resource name as kubectl accepts it: "pods",
// "deploy", "widgets.example.com". It uses the server's discovery. The error is a
// *wire.UnknownResourceError, with suggestions, if there is no such resource.
func MirrorByName(ctx context.Context, c *Cluster, name string, opts ...Option) (*Mirror[*unstructured.Unstructured], error) {
	return mirrorByName(ctx, c, name, wire.Unstructured, opts)
}

// MirrorMetadata is [MirrorByName] for the metadata only; the server omits the rest.
func MirrorMetadata(ctx context.Context, c *Cluster, name string, opts ...Option) (*Mirror[*metav1.PartialObjectMetadata], error) {
	return mirrorByName(ctx, c, name, wire.Metadata, opts)
}

func mirrorByName[P Object](ctx context.Context, c *Cluster, name string, describe func(object.Resource) wire.Resource[P], opts []Option) (*Mirror[P], error) {
	site := callSite()
	found, err := c.discovery.Find(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("tarn: mirror at %s: %w", site, err)
	}
	return attach(c, site, describe(found.Resource), nil, opts)
}

// callSite returns the file and line of the nearest caller outside this package.
func callSite() string { return callsite.Outside("github.com/tarnproject/tarn") }
