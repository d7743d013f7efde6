package controllerruntime

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// NewClient is a client.NewClientFunc, for ctrl.Options.NewClient beside [NewCache]. The client is that of
// client.New, except that its reads from the cache are never older than what it wrote: create, update,
// patch, apply, status and delete. A Get waits for the writes to its key, and a List for those that may belong
// to what it lists. If the cache will never have a written object, because a selector hides it or the cache
// could not read it, the read returns the cause: an error that wraps informer.ErrNotCovered, or an
// *informer.QuarantinedError. It adds no handler to informers and decodes nothing.
//
// DeleteAllOf is not tracked. With a cache that is not of NewCache, the client is that of client.New.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.New(config, options)
	if err != nil || options.Cache == nil {
		return inner, err
	}
	c, ok := options.Cache.Reader.(*mirrorCache)
	if !ok || options.DryRun != nil && *options.DryRun {
		return inner, nil
	}
	own := &ownWrites{Client: inner, cache: c}
	if own.deletes, err = deleter(config, options.HTTPClient); err != nil {
		return nil, err
	}
	return own, nil
}

// ownWrites is a client that reads its own writes.
type ownWrites struct {
	client.Client
	cache   *mirrorCache
	deletes *wire.Client // because inner does not return what the server answers to a delete
}

// deleter returns a client with the credentials of another.
func deleter(config *rest.Config, httpClient *http.Client) (*wire.Client, error) {
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	own, err := over(config, httpClient)
	if err != nil {
		return nil, err
	}
	return wire.New(own, wire.Options{})
}

// Get implements client.Reader.
func (c *ownWrites) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !opted((&client.GetOptions{}).ApplyOptions(opts)) {
		ctx = context.WithValue(ctx, ownReads{}, true)
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c *ownWrites) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !opted((&client.ListOptions{}).ApplyOptions(opts)) {
		ctx = context.WithValue(ctx, ownReads{}, true)
	}
	return c.Client.List(ctx, list, opts...)
}

// pending is a write in progress, in the mirrors of its kind.
type pending struct {
	client *ownWrites
	gvk    schema.GroupVersionKind
	begun  map[*part]informer.Write[tarn.Object]
}

// begin is called before a write. Mirrors that are made from now on list the most recent state.
func (c *ownWrites) begin(gvk schema.GroupVersionKind, key object.Key) *pending {
	w := &pending{c, gvk, map[*part]informer.Write[tarn.Object]{}}
	c.cache.noteWritten(gvk)
	w.each(key.Namespace, func(p *part) { w.begun[p] = p.inf.Writes().Begin(key) })
	return w
}

// each calls f for the parts that cover a namespace.
func (w *pending) each(namespace string, f func(*part)) {
	for _, v := range w.client.cache.viewsOf(w.gvk) {
		if !v.namespaced {
			namespace = ""
		}
		if p := v.partFor(namespace); p != nil {
			f(p)
		}
	}
}

// wrote records what the server answered. An answer without a UID or a version is not recorded.
func (w *pending) wrote(obj tarn.Object) {
	w.each(obj.GetNamespace(), func(p *part) {
		if b, ok := w.begun[p]; ok {
			_ = b.Wrote(obj)
		} else {
			_ = p.inf.Writes().Wrote(obj)
		}
	})
}

// write sends a write of an object, which the client replaces with the server's answer.
func (c *ownWrites) write(obj client.Object, untracked bool, send func() error) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil || untracked {
		return send()
	}
	w := c.begin(gvk, keyOf(obj))
	if err := send(); err != nil {
		return err
	}
	w.wrote(obj)
	return nil
}

// opted reports whether the options of a request disable the consistency, with a field that they have since
// controller-runtime v0.25.
func opted[O any](options *O) bool {
	disabled := reflect.ValueOf(options).Elem().FieldByName("DisableReadYourWritesConsistency")
	return disabled.IsValid() && disabled.Bool()
}

func keyOf(obj metav1.Object) object.Key {
	return object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Create implements client.Writer.
func (c *ownWrites) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	return c.write(obj, opted(o) || len(o.DryRun) > 0, func() error { return c.Client.Create(ctx, obj, opts...) })
}

// Update implements client.Writer.
func (c *ownWrites) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := (&client.UpdateOptions{}).ApplyOptions(opts)
	return c.write(obj, opted(o) || len(o.DryRun) > 0, func() error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Writer.
func (c *ownWrites) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	return c.write(obj, opted(o) || len(o.DryRun) > 0, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// Delete implements client.Writer.
func (c *ownWrites) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil || opted(o) || len(o.DryRun) > 0 {
		return c.Client.Delete(ctx, obj, opts...)
	}
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	key, resource := keyOf(obj), resourceOf(mapping)
	if !resource.Namespaced {
		key.Namespace = ""
	}
	body := o.AsDeleteOptions()
	body.Kind, body.APIVersion = "DeleteOptions", "v1"
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w := c.begin(gvk, key)
	result, err := c.deletes.Request(wire.VerbDelete).Resource(resource).Key(key).
		Body("application/json", data).Accept("application/json").Do(ctx)
	if err != nil {
		return err
	}
	w.each(key.Namespace, func(p *part) {
		b, ok := w.begun[p]
		if !ok {
			b = p.inf.Writes().Begin(key)
		}
		b.Deleting(result.Deletion())
	})
	return nil
}

// Apply implements client.Writer.
func (c *ownWrites) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.apply(obj, opted(o) || len(o.DryRun) > 0, func() error { return c.Client.Apply(ctx, obj, opts...) })
}

// apply sends an apply configuration, which the client replaces with the server's answer.
func (c *ownWrites) apply(obj runtime.ApplyConfiguration, untracked bool, send func() error) error {
	before, err := metadataOf(obj)
	if err != nil || untracked {
		return send()
	}
	w := c.begin(before.GroupVersionKind(), keyOf(before))
	if err := send(); err != nil {
		return err
	}
	if after, err := metadataOf(obj); err == nil {
		w.wrote(after)
	}
	return nil
}

// metadataOf returns the metadata of an apply configuration.
func metadataOf(obj runtime.ApplyConfiguration) (*metav1.PartialObjectMetadata, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	m := &metav1.PartialObjectMetadata{}
	return m, json.Unmarshal(raw, m)
}

// Status implements client.StatusClient.
func (c *ownWrites) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *ownWrites) SubResource(name string) client.SubResourceClient {
	return ownSubResource{c.Client.SubResource(name), c}
}

// ownSubResource records writes to a subresource.
type ownSubResource struct {
	client.SubResourceClient
	client *ownWrites
}

// Update implements client.SubResourceWriter.
func (s ownSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	untracked := opted(o) || len(o.DryRun) > 0 || o.SubResourceBody != nil
	return s.client.write(obj, untracked, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceWriter.
func (s ownSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	untracked := opted(o) || len(o.DryRun) > 0 || o.SubResourceBody != nil
	return s.client.write(obj, untracked, func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.SubResourceWriter.
func (s ownSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	o := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	untracked := opted(o) || len(o.DryRun) > 0 || o.SubResourceBody != nil
	return s.client.apply(obj, untracked, func() error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}
