package tarn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// Client reads the objects of a mirror and writes to the server. Create one with
// [Mirror.Client].
//
//   - Reads come from the cache and are never older than what this process wrote through clients
//     of the same mirror; see [Client.List] for the exception. The caller owns what they return and
//     may change it.
//   - Writes return the server's version of the object and do not change the given one. They are
//     tracked until the cache has them, and fenced: while this process does not lead, they are
//     not sent. Pass the context of the reconcile.
//
// Errors of the server are those of apimachinery's package errors, such as IsNotFound and
// IsConflict. All methods are safe for concurrent use.
type Client[T Object] struct {
	mirror  *Mirror[T]
	verbs   []string // with which it may write, nil for all
	tracked *controller.Tracked[T]
}

// Get returns a copy of the object with the given key from the cache; the error is NotFound if
// there is none. It waits until the mirror is synced, except in a reconcile: there the error wraps
// controller.ErrNotSynced, and the controller retries the key. If the cache may be older than this process's
// writes to the key, Get waits for those, except in a reconcile: there the error wraps
// controller.ErrStaleCache, and the controller retries within milliseconds. For a namespace that is
// not mirrored, and for an object that this process wrote outside of the mirror's selection, the error wraps
// informer.ErrNotCovered. It is an *informer.QuarantinedError for an object that the mirror could not read or
// store. An object that may be in another shard than that of the mirror is read from the server.
func (c *Client[T]) Get(ctx context.Context, key Key) (obj T, err error) {
	if err := c.inScope("get", key.Namespace); err != nil {
		return obj, err
	}
	elsewhere := c.elsewhere(key)
	obj, err = c.cached(ctx, key)
	if (elsewhere || c.elsewhere(key)) && (apierrors.IsNotFound(err) || errors.Is(err, informer.ErrNotCovered)) {
		return c.GetUncached(ctx, key)
	}
	return obj, err
}

// elsewhere reports whether an object that the mirror lacks may be in another shard.
func (c *Client[T]) elsewhere(key Key) bool {
	if c.mirror.shared.id.shard == nil {
		return false
	}
	has := c.mirror.inf.Shard()
	return has.By() != object.ByNamespace || !has.Contains("", key.Namespace)
}

func (c *Client[T]) cached(ctx context.Context, key Key) (obj T, err error) {
	if err := c.ready(ctx); err != nil {
		return obj, err
	}
	var ok bool
	if controller.Attempt(ctx) == 0 {
		obj, ok, err = c.mirror.inf.Writes().Get(ctx, key)
	} else {
		obj, ok, err = c.tracked.Get(key)
	}
	switch {
	case err != nil:
		return obj, err
	case !ok:
		return obj, apierrors.NewNotFound(c.mirror.Resource().GVR().GroupResource(), key.Name)
	}
	return copyOf(obj), nil
}

// List returns copies of the objects in a scope from the cache, sorted by key. It waits until
// the mirror is synced, and for this process's own writes as Get does; in a reconcile only for
// those of the same key. If this process wrote an object that the mirror could not read or store, and that
// may belong to the scope, the error is an *informer.QuarantinedError. A field selector is an error: only
// the server evaluates those. So is a namespace that is not mirrored, as in Get. To read many objects
// without copying them, see [Mirror.Snapshot] and [NewIndex].
func (c *Client[T]) List(ctx context.Context, in ...Scope) ([]T, error) {
	d, err := scopeOf(in)
	if err != nil {
		return nil, fmt.Errorf("%s: list: %w", c.mirror.Name(), err)
	}
	if d.fields != "" {
		return nil, fmt.Errorf("%s: list: the cache has no field selectors; use ListUncached or an index", c.mirror.Name())
	}
	if err := c.inScope("list", d.namespaces...); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(d.labels)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	snap, err := c.tracked.Snapshot(ctx, informer.Part{Namespaces: d.namespaces, Labels: selector})
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	var found []T
	add := func(obj T) bool {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			found = append(found, copyOf(obj))
		}
		return true
	}
	if d.namespaces == nil {
		snap.All()(add)
	}
	for _, ns := range d.namespaces {
		snap.Namespace(ns)(add)
	}
	slices.SortFunc(found, func(a, b T) int { return keyOf(a).Compare(keyOf(b)) })
	return found, nil
}

// GetUncached asks the server for an object.
func (c *Client[T]) GetUncached(ctx context.Context, key Key) (T, error) {
	return c.mirror.api.Get(ctx, key, wire.GetOptions{})
}

// ListUncached asks the server for the objects in a scope, within that of the mirror.
func (c *Client[T]) ListUncached(ctx context.Context, in ...Scope) ([]T, error) {
	d, err := scopeOf(in)
	if err != nil {
		return nil, fmt.Errorf("%s: list: %w", c.mirror.Name(), err)
	}
	own := c.mirror.shared
	d.labels, d.fields = join(own.id.labels, d.labels), join(own.id.fields, d.fields)
	namespaces := d.namespaces
	if namespaces == nil {
		namespaces = own.namespaces
	}
	if namespaces == nil {
		namespaces = []string{""}
	}
	var found []T
	for _, ns := range namespaces {
		opts := object.ListOptions{Selection: object.Selection{Namespace: ns, Labels: d.labels, Fields: d.fields}}
		items, _, err := stream.List(ctx, c.mirror.api, opts)
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
	}
	return found, nil
}

// send sends a write unless the client's verbs exclude it. A dry run is neither tracked nor fenced.
func (c *Client[T]) send(ctx context.Context, verb string, key Key, o wire.WriteOptions, do func(ctx context.Context) (T, error)) (none T, err error) {
	if err := c.may(verb, o.Subresource); err != nil {
		return none, err
	}
	if o.DryRun {
		return do(ctx)
	}
	return c.tracked.Write(ctx, key, do)
}

// Create stores a new object.
func (c *Client[T]) Create(ctx context.Context, obj T, opts ...WriteOption) (T, error) {
	o := c.options(opts, "").WriteOptions
	return c.send(ctx, "create", keyOf(obj), o, func(ctx context.Context) (T, error) { return c.mirror.api.Create(ctx, obj, o) })
}

// Update replaces an object. If obj has a resource version and the stored object another, the
// error is a conflict, which a controller retries. With a mirror that drops fields or transforms
// objects it is refused, because it would delete what the mirror lacks: use PatchFrom or Apply,
// or [Mirror.API] for an object that is complete.
func (c *Client[T]) Update(ctx context.Context, obj T, opts ...WriteOption) (T, error) {
	return c.update(ctx, obj, opts, "")
}

// UpdateStatus replaces the status of an object and nothing else. It is refused where Update is.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj T, opts ...WriteOption) (T, error) {
	return c.update(ctx, obj, opts, "status")
}

func (c *Client[T]) update(ctx context.Context, obj T, opts []WriteOption, subresource string) (none T, err error) {
	if err := c.complete(); err != nil {
		return none, err
	}
	o := c.options(opts, subresource).WriteOptions
	return c.send(ctx, "update", keyOf(obj), o, func(ctx context.Context) (T, error) { return c.mirror.api.Update(ctx, obj, o) })
}

// Patch patches an object: wire.MergePatchOf, wire.JSONPatch and others make patches.
func (c *Client[T]) Patch(ctx context.Context, key Key, patch wire.Patch, opts ...WriteOption) (T, error) {
	return c.patch(ctx, key, patch, opts, "")
}

// PatchStatus patches the status of an object.
func (c *Client[T]) PatchStatus(ctx context.Context, key Key, patch wire.Patch, opts ...WriteOption) (T, error) {
	return c.patch(ctx, key, patch, opts, "status")
}

func (c *Client[T]) patch(ctx context.Context, key Key, patch wire.Patch, opts []WriteOption, subresource string) (T, error) {
	o := c.options(opts, subresource).WriteOptions
	return c.send(ctx, "patch", key, o, func(ctx context.Context) (T, error) { return c.mirror.api.Patch(ctx, key, patch, o) })
}

// PatchFrom sends the difference between old, as it was read, and changed as a merge patch. If
// there is none, it sends nothing and returns changed. Fields that other writers set meanwhile
// stay, except in lists, which a merge patch replaces as a whole.
//
// With a fence, as in the reconciles of replicas that share or take over the work, the patch has the
// resource version of old, so that the server refuses it if it arrives after another replica has
// changed the object. If the fence is open after a conflict, other writers have caused it: PatchFrom
// then reads the version from the server and sends the patch again, up to five times in total.
func (c *Client[T]) PatchFrom(ctx context.Context, old, changed T, opts ...WriteOption) (T, error) {
	return c.patchFrom(ctx, old, changed, opts, "")
}

// PatchStatusFrom is [Client.PatchFrom] for the status.
func (c *Client[T]) PatchStatusFrom(ctx context.Context, old, changed T, opts ...WriteOption) (T, error) {
	return c.patchFrom(ctx, old, changed, opts, "status")
}

func (c *Client[T]) patchFrom(ctx context.Context, old, changed T, opts []WriteOption, subresource string) (none T, err error) {
	if keyOf(old) != keyOf(changed) {
		return none, fmt.Errorf("%s: patch from %s to %s: these are two objects", c.mirror.Name(), keyOf(old), keyOf(changed))
	}
	before, err := treeOf(old)
	if err != nil {
		return none, fmt.Errorf("%s: patch %s: %w", c.mirror.Name(), keyOf(old), err)
	}
	after, err := treeOf(changed)
	if err != nil {
		return none, fmt.Errorf("%s: patch %s: %w", c.mirror.Name(), keyOf(old), err)
	}
	diff := mergeDiff(before, after)
	if len(diff) == 0 {
		return changed, nil
	}
	return c.patchUnless(ctx, old, diff, opts, subresource)
}

// patchUnless sends a merge patch that was made from old. With a fence, the patch has the version of the
// object, read while the fence was open, so that it is refused if another replica has written since.
func (c *Client[T]) patchUnless(ctx context.Context, old T, diff map[string]any, opts []WriteOption, subresource string) (obj T, err error) {
	key, version := keyOf(old), old.GetResourceVersion()
	meta, _ := diff["metadata"].(map[string]any)
	if own, _ := meta["resourceVersion"].(string); own != "" || version == "" || !controller.Fenced(ctx) {
		return c.patch(ctx, key, wire.MergePatchOf(diff), opts, subresource)
	}
	if meta == nil {
		meta = map[string]any{}
		diff["metadata"] = meta
	}
	for range 5 { // as often as the server tries to apply a patch without a version
		meta["resourceVersion"] = version
		obj, err = c.patch(ctx, key, wire.MergePatchOf(diff), opts, subresource)
		if !apierrors.IsConflict(err) {
			return obj, err
		}
		now, failed := c.GetUncached(ctx, key)
		if failed != nil || now.GetUID() != old.GetUID() || now.GetResourceVersion() == version {
			return obj, err
		}
		version = now.GetResourceVersion()
	}
	return obj, err
}

// Apply is server-side apply: it sets the fields of config, and removes those that this field
// manager applied before and that config no longer has. config is one of client-go's apply
// configurations, an object of type T, of which everything but the status is applied, or
// anything else that encodes to JSON with a name. A conflict with another field manager is an
// error that a retry does not resolve; see [Force].
func (c *Client[T]) Apply(ctx context.Context, config any, opts ...WriteOption) (T, error) {
	return c.apply(ctx, config, opts, "")
}

// ApplyStatus is [Client.Apply] for the status. Of an object of type T only the status is
// applied.
func (c *Client[T]) ApplyStatus(ctx context.Context, config any, opts ...WriteOption) (T, error) {
	return c.apply(ctx, config, opts, "status")
}

func (c *Client[T]) apply(ctx context.Context, config any, opts []WriteOption, subresource string) (none T, err error) {
	config = pointerTo(config)
	body, key, err := applied(c.mirror.Resource(), config, subresource != "")
	if _, same := config.(T); err == nil && !same {
		err = otherType(config)
	}
	if err != nil {
		return none, fmt.Errorf("%s: apply: %w", c.mirror.Name(), err)
	}
	o := c.options(opts, subresource).WriteOptions
	return c.send(ctx, "patch", key, o, func(ctx context.Context) (T, error) { return c.mirror.api.Apply(ctx, key, body, o) })
}

// Outcome is what [Client.CreateOrUpdate] did.
type Outcome string

// The outcomes.
const (
	OutcomeUnchanged Outcome = "unchanged"
	OutcomeCreated   Outcome = "created"
	OutcomeUpdated   Outcome = "updated"
)

// CreateOrUpdate brings the object with obj's key to the state that mutate sets: it calls mutate
// with a copy of the cached object, or with obj itself if there is none, and then creates or
// updates the object if mutate changed it. mutate must not change namespace and name. The object
// must match the mirror's selector: another one would never be found, so it is refused. If the server has
// an object that the selector hides, because its label was removed for example, mutate is called with
// that, read from the server. A conflict is an error that a controller retries.
func (c *Client[T]) CreateOrUpdate(ctx context.Context, obj T, mutate func(T) error, opts ...WriteOption) (T, Outcome, error) {
	key := keyOf(obj)
	if key.Name == "" {
		return obj, OutcomeUnchanged, fmt.Errorf("%s: create or update: the object has no name; generateName is for Create", c.mirror.Name())
	}
	now, err := c.Get(ctx, key)
	switch {
	case err == nil:
		return c.updateWith(ctx, now, mutate, opts)
	case !apierrors.IsNotFound(err) && !errors.Is(err, informer.ErrNotCovered):
		return obj, OutcomeUnchanged, err
	}
	if err := c.mutated(key, obj, mutate); err != nil {
		return obj, OutcomeUnchanged, err
	}
	now, err = c.Create(ctx, obj, opts...)
	if err == nil {
		return now, OutcomeCreated, nil
	}
	if hidden := (*informer.QuarantinedError)(nil); apierrors.IsAlreadyExists(err) && !errors.As(err, &hidden) {
		// The selector hides it, or the cache lags behind another writer.
		if now, failed := c.GetUncached(ctx, key); failed == nil {
			return c.updateWith(ctx, now, mutate, opts)
		}
	}
	return obj, OutcomeUnchanged, err
}

// updateWith updates an object if mutate changes it.
func (c *Client[T]) updateWith(ctx context.Context, now T, mutate func(T) error, opts []WriteOption) (T, Outcome, error) {
	before := copyOf(now)
	if err := c.mutated(keyOf(before), now, mutate); err != nil {
		return before, OutcomeUnchanged, err
	}
	if equality.Semantic.DeepEqual(before, now) {
		return now, OutcomeUnchanged, nil
	}
	updated, err := c.Update(ctx, now, opts...)
	if err != nil {
		return before, OutcomeUnchanged, err
	}
	return updated, OutcomeUpdated, nil
}

// mutated calls mutate, and returns an error for an object that the mirror would not have after it.
func (c *Client[T]) mutated(key Key, obj T, mutate func(T) error) error {
	switch err := mutate(obj); {
	case err != nil:
		return err
	case keyOf(obj) != key:
		return fmt.Errorf("%s: mutate changed the key from %s to %s", c.mirror.Name(), key, keyOf(obj))
	case !c.mirror.inf.Covers(obj):
		return fmt.Errorf("%s: create or update: %s does not match the mirror's selector; set its labels in mutate: %w", c.mirror.Name(), key, informer.ErrNotCovered)
	}
	return nil
}

// Delete deletes an object. It returns when the server has accepted the request; finalizers and
// a grace period may delay the deletion. With a fence, it deletes only the object with the UID that
// the mirror has, as with [OnlyUID], so that a late request does not delete one that another replica
// has created. If that is not the object's, the error is a conflict, which a controller retries. If the
// mirror has not received this process's last write to the object, there is no such condition.
func (c *Client[T]) Delete(ctx context.Context, key Key, opts ...WriteOption) error {
	if err := c.may("delete", ""); err != nil {
		return err
	}
	w := c.options(opts, "")
	o := wire.DeleteOptions{DryRun: w.DryRun, UID: w.uid, Propagation: w.propagation, GracePeriod: w.grace}
	if o.DryRun {
		return c.mirror.api.Delete(ctx, key, o)
	}
	if o.UID == "" && controller.Fenced(ctx) {
		if obj, ok, err := c.tracked.Get(key); ok && err == nil { // an object older than the last write may be another one
			o.UID = obj.GetUID()
		}
	}
	return c.tracked.Delete(ctx, key, func(ctx context.Context) (object.Deletion, error) {
		return c.mirror.api.DeleteReturning(ctx, key, o)
	})
}

// Finalize maintains a finalizer, such as "example.com/volume": while the object exists it adds
// it, and returns the object with it. When the object is in deletion it calls cleanup, then
// removes the finalizer; deleted is true then, and nothing is left to reconcile.
func (c *Client[T]) Finalize(ctx context.Context, obj T, finalizer string, cleanup func(ctx context.Context, obj T) error) (now T, deleted bool, err error) {
	// An update with the object would delete the fields that the mirror drops or transforms.
	update := func(ctx context.Context, obj T) (T, error) {
		return c.Patch(ctx, keyOf(obj), wire.MergePatchOf(map[string]any{"metadata": map[string]any{
			"finalizers": obj.GetFinalizers(), "resourceVersion": obj.GetResourceVersion(),
		}}))
	}
	return controller.Finalize(ctx, update, obj, controller.Finalizer(finalizer), cleanup)
}

// SetOwner makes owner, an object of this client's resource, the controller of child, so that
// child is garbage-collected with it and [Owns] maps its changes to the owner. The error is a
// *controller.OwnedError if child has another controller.
func (c *Client[T]) SetOwner(child metav1.Object, owner T) error {
	if err := c.may("update", "finalizers"); err != nil {
		return err
	}
	return controller.SetOwner(child, owner, c.mirror.Resource())
}

// complete returns an error if the objects of the mirror lack fields that a write would then
// delete. Managed fields are no such: the server keeps them.
func (c *Client[T]) complete() error {
	m := c.mirror.shared
	lacks := slices.ContainsFunc(m.dropped, func(path string) bool { return path != object.ManagedFields.String() })
	if !lacks && m.transform == nil {
		return nil
	}
	return fmt.Errorf("%s: an update would delete what the mirror drops or transforms; use PatchFrom or Apply", m.name)
}

// inScope returns an error for a namespace that the mirror does not cover, where a read would find
// nothing.
func (c *Client[T]) inScope(verb string, namespaces ...string) error {
	covered := c.mirror.shared.namespaces
	for _, ns := range namespaces {
		if covered != nil && !slices.Contains(covered, ns) {
			return fmt.Errorf("%s: %s: namespace %q: %w", c.mirror.Name(), verb, ns, informer.ErrNotCovered)
		}
	}
	return nil
}

func (c *Client[T]) ready(ctx context.Context) error {
	select {
	case <-c.mirror.inf.Synced():
		return nil
	case <-c.mirror.inf.Stopped():
	default:
		if controller.Attempt(ctx) > 0 { // the worker has other keys to work on
			unsynced, cancel := context.WithCancelCause(ctx)
			cancel(controller.ErrNotSynced)
			ctx = unsynced
		}
	}
	return c.mirror.WaitSynced(ctx)
}

// IgnoreNotFound returns nil if the server or the cache reports that an object does not exist,
// and err otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func scopeOf(in []Scope) (*declaration, error) {
	d := &declaration{}
	var errs []error
	for _, s := range in {
		errs = append(errs, s.declare(d))
	}
	return d, errors.Join(errs...)
}

func keyOf(obj metav1.Object) Key { return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()} }

func copyOf[T Object](obj T) T { return obj.DeepCopyObject().(T) }
