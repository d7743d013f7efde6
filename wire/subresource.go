package wire

import (
	"context"
	"reflect"

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
	s.kind, _ = builtinKind(t.Elem())
	if _, ok := any(s.make()).(unmarshaler); ok && !s.kind.Empty() {
		s.encoding = a.resource.encoding // subresources of custom resources are JSON too
	}
	return s
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
	return s.do(ctx, patchRequest(s.request(VerbPatch, key), patch, opts))
}
