package wire

import (
	"context"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// API has the verbs of one resource on single objects, with the resource's Go type. Writes do not
// change the given object and return the server's version of it. The caller owns every returned
// object. All methods are safe for concurrent use.
//
// Errors are an [*Error] for an error response and a [*TransportError] if there was no usable
// response. The functions of apimachinery's errors package accept both.
type API[T any] struct {
	client   *Client
	resource Resource[T]
}

// For returns the verbs of a resource. If the resource is invalid, every verb returns the error
// of [Resource.Valid].
func For[T any](c *Client, res Resource[T]) *API[T] { return &API[T]{client: c, resource: res} }

// Resource returns the resource.
func (a *API[T]) Resource() Resource[T] { return a.resource }

// Client returns the client.
func (a *API[T]) Client() *Client { return a.client }

// GetOptions are the options of get.
type GetOptions struct {
	// Version is the oldest acceptable version; "0" for any, which the server returns from
	// its cache. Defaults to the most recent.
	Version object.Version
}

// FieldValidation says how the server treats unknown and duplicate fields.
type FieldValidation string

// The values of FieldValidation.
const (
	ValidateStrict FieldValidation = "Strict" // reject the object
	ValidateWarn   FieldValidation = "Warn"   // drop them with a warning
	ValidateIgnore FieldValidation = "Ignore" // drop them
)

// WriteOptions are the options of create, update, patch and apply.
type WriteOptions struct {
	// FieldManager is the field manager of the changed fields. Defaults to the one that the
	// server derives from the client's user agent.
	FieldManager string
	// DryRun validates the request without storing the result. Defaults to false.
	DryRun bool
	// Validation says how the server treats unknown fields. Defaults to the server's
	// default, ValidateWarn.
	Validation FieldValidation
	// Force lets an apply take fields from other managers. Defaults to false: the server
	// returns a conflict that names them.
	Force bool
	// Subresource is what an update, a patch or an apply changes, such as "status". Defaults to the object.
	Subresource string
}

func (o WriteOptions) params(r *Request) *Request {
	if o.Subresource != "" {
		r.Subresource(o.Subresource)
	}
	if o.DryRun {
		r.Param("dryRun", metav1.DryRunAll)
	}
	return r.Param("fieldManager", o.FieldManager).Param("fieldValidation", string(o.Validation))
}

// request returns a request for the resource's objects.
func (a *API[T]) request(verb Verb, key object.Key) *Request {
	r := a.client.Request(verb).Resource(a.resource.Resource).Key(key).Accept(a.resource.Accept(verb))
	if err := a.resource.Valid(); err != nil {
		r.fail("%w", err)
	}
	return r
}

// do sends a request and decodes the returned object.
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
	clearKind(obj)
	return obj, nil
}

// kinds are the kinds that a response may have.
func (a *API[T]) kinds() []schema.GroupVersionKind {
	own := a.resource.GVK()
	if a.resource.metadataOnly() {
		return []schema.GroupVersionKind{metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), own}
	}
	return []schema.GroupVersionKind{own}
}

// clearKind removes apiVersion and kind from an object with a Go type, so that it is the same in
// all encodings, alone and in a list.
func clearKind(obj any) {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return
	}
	if k, ok := obj.(kinded); ok {
		k.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

// keyOf returns the key of an object.
func keyOf(obj any) (object.Key, error) {
	if isNil(obj) {
		return object.Key{}, errNilObject(obj)
	}
	return object.KeyOf(obj)
}

// write creates or updates an object.
func (a *API[T]) write(ctx context.Context, verb Verb, obj T, opts WriteOptions) (T, error) {
	key, err := keyOf(obj)
	r := a.request(verb, key)
	if err != nil {
		r.fail("%w", err)
	}
	if verb == VerbCreate {
		r.key.Name = "" // it is in the body, or the server generates it
	}
	if a.resource.metadataOnly() {
		r.fail("writing only the metadata of %s would delete the rest; use Patch", a.resource.Resource)
	}
	opts.params(r).object(obj, a.resource.GVK(), a.resource.encoding)
	stored, err := a.do(ctx, r)
	if a.resource.encoding == Protobuf && apierrors.IsUnsupportedMediaType(err) {
		// A fake server may support only JSON.
		stored, err = a.do(ctx, r.object(obj, a.resource.GVK(), JSON))
	}
	return stored, err
}

// object sets an object as the body, unless the request has a mistake already.
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

// Create stores a new object. With metadata.generateName instead of a name, the server generates
// the name.
func (a *API[T]) Create(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbCreate, obj, opts)
}

// Update replaces an object. If obj has a resource version and the stored object another, the
// error is a conflict. An update is retried after a lost connection; if the first attempt was
// processed, the retry returns a conflict.
func (a *API[T]) Update(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	return a.write(ctx, VerbUpdate, obj, opts)
}

// UpdateStatus replaces the status of an object and nothing else.
func (a *API[T]) UpdateStatus(ctx context.Context, obj T, opts WriteOptions) (T, error) {
	opts.Subresource = "status"
	return a.write(ctx, VerbUpdate, obj, opts)
}

// Open streams a subresource that is not an object, such as "log" of a pod. The caller must
// close the reader.
func (a *API[T]) Open(ctx context.Context, key object.Key, subresource string, params url.Values) (io.ReadCloser, error) {
	resp, err := a.request(VerbGet, key).Subresource(subresource).Accept("*/*").Params(params).Stream(ctx)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
