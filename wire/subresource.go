package wire

import (
	"context"
	"path"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// Subresource has the verbs of a subresource of type S: its own type, as for "scale" of deployments,
// "eviction" and "binding" of pods and "token" of service accounts, or the type of the whole object,
// as for "resize" and "ephemeralcontainers" of pods. All methods are safe for concurrent use.
type Subresource[S any] struct {
	client   *Client
	parent   object.Resource
	name     string
	encoding Encoding
	kind     schema.GroupVersionKind // empty if objects must have it
	make     func() S
	err      error
}

// SubresourceOf returns a subresource of a's resource with the Go type S:
//
//	scale := wire.SubresourceOf[*autoscalingv1.Scale](deployments, "scale")
//
// Objects of a type outside k8s.io/api must have their kind set.
func SubresourceOf[S, T any](a *API[T], name string) *Subresource[S] {
	t := reflect.TypeFor[S]()
	s := &Subresource[S]{client: a.client, parent: a.resource.Resource, name: name, encoding: JSON, make: maker[S](t), err: a.resource.Valid()}
	if s.make == nil {
		if s.err == nil {
			s.err = errNotPointer(t)
		}
		return s
	}
	if t == reflect.TypeFor[T]() && t != reflect.TypeFor[*unstructured.Unstructured]() {
		s.kind, s.encoding = a.resource.GVK(), a.resource.encoding
		return s
	}
	s.kind = builtinPart(t.Elem())
	if _, ok := any(s.make()).(unmarshaler); ok && !s.kind.Empty() {
		s.encoding = a.resource.encoding // subresources of custom resources are JSON too
	}
	return s
}

// builtinParts are the groups of the kinds of k8s.io/api that exist only as a subresource.
var builtinParts = map[string]string{
	"apps/v1beta1.Scale":             "apps",
	"apps/v1beta2.Scale":             "apps",
	"authentication/v1.TokenRequest": "authentication.k8s.io",
	"autoscaling/v1.Scale":           "autoscaling",
	"extensions/v1beta1.Scale":       "extensions",
	"policy/v1.Eviction":             "policy",
	"policy/v1beta1.Eviction":        "policy",
}

// builtinPart returns the kind of a Go type of k8s.io/api, or an empty one.
func builtinPart(t reflect.Type) schema.GroupVersionKind {
	if res, ok := builtin(t); ok {
		return res.GVK()
	}
	pkg, ok := strings.CutPrefix(t.PkgPath(), builtinRoot)
	if !ok {
		return schema.GroupVersionKind{}
	}
	group, ok := builtinParts[pkg+"."+t.Name()]
	if !ok {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Group: group, Version: path.Base(pkg), Kind: t.Name()}
}

func (s *Subresource[S]) request(verb Verb, key object.Key) *Request {
	r := s.client.Request(verb).Resource(s.parent).Key(key).Subresource(s.name).Accept(accept(s.encoding, ""))
	if s.err != nil {
		r.fail("%w", s.err)
	}
	if key.Name == "" {
		r.fail("%w", errNoName)
	}
	return r
}

func (s *Subresource[S]) do(ctx context.Context, r *Request) (S, error) {
	var none S
	res, err := r.Do(ctx)
	if err != nil {
		return none, err
	}
	// The response to an eviction or a binding is a Status.
	if status, ok := decodeStatus(res.data); ok && status.Status == metav1.StatusSuccess {
		return none, nil
	}
	obj := s.make()
	if s.kind.Empty() {
		err = res.into(obj)
	} else if err = res.into(obj, s.kind); err == nil {
		clearKind(obj)
	}
	if err != nil {
		return none, err
	}
	return obj, nil
}

func (s *Subresource[S]) write(ctx context.Context, verb Verb, key object.Key, obj S, opts WriteOptions) (S, error) {
	return s.do(ctx, opts.params(s.request(verb, key)).object(obj, s.kind, s.encoding))
}

// Get returns the subresource of an object.
func (s *Subresource[S]) Get(ctx context.Context, key object.Key, opts GetOptions) (S, error) {
	return s.do(ctx, s.request(VerbGet, key).Param("resourceVersion", string(opts.Version)))
}

// Create posts to the subresource of an object: an eviction, a binding, a token request. If the
// server returns only a Status, the result is the zero S.
func (s *Subresource[S]) Create(ctx context.Context, key object.Key, obj S, opts WriteOptions) (S, error) {
	return s.write(ctx, VerbCreate, key, obj, opts)
}

// Update replaces the subresource of an object.
func (s *Subresource[S]) Update(ctx context.Context, key object.Key, obj S, opts WriteOptions) (S, error) {
	return s.write(ctx, VerbUpdate, key, obj, opts)
}

// Patch patches the subresource of an object.
func (s *Subresource[S]) Patch(ctx context.Context, key object.Key, patch Patch, opts WriteOptions) (S, error) {
	return s.do(ctx, patchRequest(s.request(VerbPatch, key), patch, opts, nil))
}
