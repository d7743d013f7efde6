package tarn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/controller"
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
	return &Client[T]{mirror: m, verbs: verbs, tracked: controller.Track(m.inf)}
}

// may returns an error for a write with another verb than those that RBAC reports.
func (c *Client[T]) may(verb, subresource string) error {
	if subresource != "" {
		verb += "/" + subresource
	}
	if len(c.verbs) == 0 || slices.Contains(c.verbs, verb) {
		return nil
	}
	return fmt.Errorf("%s: %s: the client was created with the verbs %s only; add %q to the call of Mirror.Client",
		c.mirror.Name(), verb, strings.Join(c.verbs, ", "), verb)
}
