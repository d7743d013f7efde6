package wire

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// API is a client and a resource: the verbs, with the resource's own type. Objects
// that are passed in are not changed; what the server made of them is returned.
// All methods may be called from any goroutine.
//
// Errors are an [*Error] when the server refused and a [*TransportError] when there
// was no answer; the functions of apimachinery's errors package tell refusals apart.
type API[T any] struct {
	client   *Client
	resource Resource[T]

	once   sync.Once // makes what follows, at the first List or Watch
	src    *Source[T]
	srcErr error
}

// For returns the verbs of a resource. What is wrong with the resource, if anything
// is, every verb says; see [Resource.Valid].
func For[T any](c *Client, res Resource[T]) *API[T] { return &API[T]{client: c, resource: res} }

// Resource returns the resource.
func (a *API[T]) Resource() Resource[T] { return a.resource }

// Client returns the client.
func (a *API[T]) Client() *Client { return a.client }

// GetOptions say which state of an object to get.
type GetOptions struct {
	// Version asks for a state that is not older: "0" for any, which the server
	// answers from its cache. Defaults to the most recent.
	Version object.Version
}

// FieldValidation says what the server does with fields that it does not know, or
// that are there twice.
type FieldValidation string

// The ways of field validation.
const (
	ValidateStrict FieldValidation = "Strict" // refuse the object
	ValidateWarn   FieldValidation = "Warn"   // warn and drop them
	ValidateIgnore FieldValidation = "Ignore" // drop them
)

// WriteOptions are those of create, update and patch.
type WriteOptions struct {
	// FieldManager is who the changed fields are said to belong to. Defaults to what
	// the server makes of the client's user agent.
	FieldManager string
	// DryRun goes through everything but does not store. Defaults to false.
	DryRun bool
	// Validation is how unknown fields are taken. Defaults to the server's choice,
	// which is ValidateWarn.
	Validation FieldValidation
}

func (o WriteOptions) params(r *Request) *Request {
	if o.DryRun {
		r.Param("dryRun", metav1.DryRunAll)
	}
	return r.Param("fieldManager", o.FieldManager).Param("fieldValidation", string(o.Validation))
}

// request begins a request for the resource's own objects.
func (a *API[T]) request(verb Verb, key object.Key) *Request {
	r := a.client.Request(verb).Resource(a.resource.Resource).Key(key).
		Accept(accept(a.resource.encoding, a.resource.form == metadata))
	if err := a.resource.Valid(); err != nil {
		r.fail("%w", err)
	}
	return r
}

// do sends a request and reads the object that comes back.
func (a *API[T]) do(ctx context.Context, r *Request) (T, error) {
	var none T
	res, err := r.Do(ctx)
	if err != nil {
		return none, err
	}
	obj := a.resource.make()
	if err := res.into(obj, a.kinds()...); err != nil {
		return none, err
	}
	clearKind(obj, a.resource.form)
	return obj, nil
}

// kinds are those that an answer may have.
func (a *API[T]) kinds() []schema.GroupVersionKind {
	own := a.resource.GVK()
	if a.resource.form == metadata {
		return []schema.GroupVersionKind{metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), own}
	}
	return []schema.GroupVersionKind{own}
}

// clearKind takes apiVersion and kind off an object whose Go type says them, so that
// it is the same whether it came as protobuf or as JSON, alone or in a list.
func clearKind(obj any, f form) {
	if k, ok := obj.(kinded); ok && f != dynamic {
		k.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

// keyOf returns the key of an object.
func keyOf(obj any) (object.Key, error) {
	if v := reflect.ValueOf(obj); v.Kind() != reflect.Pointer || v.IsNil() {
		return object.Key{}, fmt.Errorf("no object to send: %T is nil", obj)
	}
	return object.KeyOf(obj)
}

// write sends an object with create or update.
func (a *API[T]) write(ctx context.Context, verb Verb, subresource string, obj T, opts WriteOptions) (T, error) {
	key, err := keyOf(obj)
	r := a.request(verb, key)
	if err != nil {
		r.fail("%w", err)
	}
	if verb == VerbCreate {
		r.Name("") // it is in the body, or made by the server
	}
	if a.resource.form == metadata {
		r.fail("only the metadata of %s is known here, so writing one would lose the rest; use Patch", a.resource.Resource)
	}
	opts.params(r.Subresource(subresource)).object(obj, a.resource.GVK(), a.resource.encoding)
	stored, err := a.do(ctx, r)
	if a.resource.encoding == Protobuf && apierrors.IsUnsupportedMediaType(err) {
		// A server that stands in for the real one may know JSON only.
		stored, err = a.do(ctx, r.object(obj, a.resource.GVK(), JSON))
	}
	return stored, err
}

// object makes an object the body of a request that has no mistake so far.
func (r *Request) object(obj any, gvk schema.GroupVersionKind, e Encoding) *Request {
	if r.err != nil {
		return r
	}
	contentType, data, err := encodeObject(obj, gvk, e)
	if err != nil {
		r.fail("%w", err)
	}
	return r.Body(contentType, data)
}

// Get returns an object.
func (a *API[T]) Get(ctx context.Context, key object.Key, opts GetOptions) (T, error) {
	return a.do(ctx, a.request(VerbGet, key).Param("resourceVersion", string(opts.Version)))
}

// Create stores a new object. Its name may be left to the server by way of
// metadata.generateName.
func (a *API[T]) Create(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbCreate, "", obj, opts)
}

// Update replaces an object. With a resource version in it, it is refused as a
// conflict when the object has changed since. An update whose connection broke is
// sent again, and may then meet the conflict that it made itself.
func (a *API[T]) Update(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbUpdate, "", obj, opts)
}

// UpdateStatus replaces the status of an object and leaves the rest alone.
func (a *API[T]) UpdateStatus(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbUpdate, "status", obj, opts)
}

// UpdateSubresource replaces a part of an object that is sent as a whole object,
// such as "ephemeralcontainers" or "resize" of a pod. For parts with a type of their
// own, such as "scale", see [SubresourceOf].
func (a *API[T]) UpdateSubresource(ctx context.Context, subresource string, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbUpdate, subresource, obj, opts)
}

// Open reads a subresource that is not an object, such as "log" of a pod, as it
// comes. Whoever gets the reader closes it.
func (a *API[T]) Open(ctx context.Context, key object.Key, subresource string, params url.Values) (io.ReadCloser, error) {
	r := a.request(VerbGet, key).Subresource(subresource).Accept("*/*")
	for name, values := range params {
		for _, v := range values {
			r.Param(name, v)
		}
	}
	resp, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
