package tarn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// clientVerbs are the verbs of [Mirror.Client], with the permission that each needs.
var clientVerbs = map[string]struct {
	subresource string
	verb        verbs
}{
	"create": {"", createVerb}, "update": {"", updateVerb}, "patch": {"", patchVerb}, "delete": {"", deleteVerb},
	"update/status": {"/status", updateVerb}, "patch/status": {"/status", patchVerb}, "update/finalizers": {"/finalizers", updateVerb},
}

// Client returns a client for the mirror's resource, which may write with these verbs:
//
//	create, update, patch, delete    the methods of that name; Apply and Finalize need patch
//	update/status, patch/status      UpdateStatus; PatchStatus, PatchStatusFrom and ApplyStatus
//	update/finalizers                SetOwner, in clusters that protect owners from it
//
// [Cluster.RBAC] includes the permissions for them, and any other write is an error. CreateOrUpdate needs create
// and update, and an Apply that creates needs create. Without verbs the client may write in every way. Client
// panics if a verb is not one of these.
func (m *Mirror[T]) Client(verbs ...string) *Client[T] {
	for _, v := range verbs {
		if _, known := clientVerbs[v]; !known {
			panic(fmt.Sprintf("tarn: Mirror.Client: %q is not a verb of a client", v))
		}
	}
	m.cluster.noteClient(m.shared, verbs)
	api := limitedAPI[T]{m.api, m.Name(), verbs}
	return &Client[T]{mirror: m, api: api, writes: controller.NewClient(api, m.inf)}
}

// limitedAPI refuses writes with other verbs than those that RBAC reports.
type limitedAPI[T Object] struct {
	*wire.API[T]
	name  string
	verbs []string // nil for all
}

func (a limitedAPI[T]) check(verb string, subresource ...string) error {
	verb = strings.Join(append([]string{verb}, subresource...), "/")
	if len(a.verbs) == 0 || slices.Contains(a.verbs, verb) {
		return nil
	}
	return fmt.Errorf("%s: %s: the client was created with the verbs %s only; add %q to the call of Mirror.Client",
		a.name, verb, strings.Join(a.verbs, ", "), verb)
}

// Create is one of the writes that are checked, as are the other methods.
func (a limitedAPI[T]) Create(ctx context.Context, obj T, opts wire.WriteOptions) (none T, err error) {
	if err := a.check("create"); err != nil {
		return none, err
	}
	return a.API.Create(ctx, obj, opts)
}

// Update implements controller.API.
func (a limitedAPI[T]) Update(ctx context.Context, obj T, opts wire.WriteOptions) (none T, err error) {
	if err := a.check("update"); err != nil {
		return none, err
	}
	return a.API.Update(ctx, obj, opts)
}

// UpdateStatus implements controller.API.
func (a limitedAPI[T]) UpdateStatus(ctx context.Context, obj T, opts wire.WriteOptions) (none T, err error) {
	if err := a.check("update", "status"); err != nil {
		return none, err
	}
	return a.API.UpdateStatus(ctx, obj, opts)
}

// Patch implements controller.API.
func (a limitedAPI[T]) Patch(ctx context.Context, key object.Key, patch wire.Patch, opts wire.WriteOptions, subresource ...string) (none T, err error) {
	if err := a.check("patch", subresource...); err != nil {
		return none, err
	}
	return a.API.Patch(ctx, key, patch, opts, subresource...)
}

// Apply implements controller.API.
func (a limitedAPI[T]) Apply(ctx context.Context, key object.Key, config any, opts wire.ApplyOptions, subresource ...string) (none T, err error) {
	if err := a.check("patch", subresource...); err != nil {
		return none, err
	}
	return a.API.Apply(ctx, key, config, opts, subresource...)
}

// Delete is used for dry runs.
func (a limitedAPI[T]) Delete(ctx context.Context, key object.Key, opts wire.DeleteOptions) error {
	if err := a.check("delete"); err != nil {
		return err
	}
	return a.API.Delete(ctx, key, opts)
}

// DeleteReturning implements controller.API.
func (a limitedAPI[T]) DeleteReturning(ctx context.Context, key object.Key, opts wire.DeleteOptions) (object.Deletion, error) {
	if err := a.check("delete"); err != nil {
		return object.Deletion{}, err
	}
	return a.API.DeleteReturning(ctx, key, opts)
}
