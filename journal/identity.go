package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// Identity is what a state was mirrored from, and how. A state is resumed only by a mirror with the same one.
type Identity struct {
	// Server is the UID of the namespace kube-system, which tells clusters apart whatever their address.
	Server string `json:"server"`
	// Resource is the mirrored resource in the version in which it is served, such as "apps/v1/deployments".
	Resource string `json:"resource"`
	// Namespaces are the mirrored namespaces; nil for all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels and Fields are the selectors.
	Labels string `json:"labels,omitempty"`
	Fields string `json:"fields,omitempty"`
	// Form is the Go type of the objects and how they are encoded.
	Form string `json:"form"`
	// Dropped are the omitted fields, sorted.
	Dropped []string `json:"dropped,omitempty"`
	// Transform is the name and the version of the transform; empty without one.
	Transform string `json:"transform,omitempty"`
}

// Mark is the version up to which a state has everything in a scope, and the shard of it that was mirrored, as a
// selector.
type Mark struct {
	Scope   object.Scope
	Version object.Version
	Shard   string
}

// MismatchError says that a state is of another mirror than the one that wants to resume it.
type MismatchError struct {
	// What differs, such as "dropped fields", and what the state and the mirror have.
	What, State, Mirror string
}

// Error says what differs.
func (e *MismatchError) Error() string {
	if e.What == "server" {
		return "journal: the state is of another cluster"
	}
	return fmt.Sprintf("journal: the state has another %s: %q, the mirror %q", e.What, e.State, e.Mirror)
}

// differs returns how the state of an identity differs from what a mirror wants; nil if it does not.
func (id Identity) differs(want Identity) error {
	mismatch := func(what, is, wants string) error {
		if is == wants {
			return nil
		}
		return &MismatchError{What: what, State: is, Mirror: wants}
	}
	list := func(l []string) string { return strings.Join(l, ", ") }
	for _, err := range []error{
		mismatch("server", id.Server, want.Server),
		mismatch("resource", id.Resource, want.Resource),
		mismatch("set of namespaces", list(id.Namespaces), list(want.Namespaces)),
		mismatch("label selector", id.Labels, want.Labels),
		mismatch("field selector", id.Fields, want.Fields),
		mismatch("form", id.Form, want.Form),
		mismatch("set of dropped fields", list(id.Dropped), list(want.Dropped)),
		mismatch("transform", id.Transform, want.Transform),
	} {
		if err != nil {
			return err
		}
	}
	if (id.Namespaces == nil) != (want.Namespaces == nil) || !slices.Equal(id.Namespaces, want.Namespaces) {
		return &MismatchError{What: "set of namespaces", State: list(id.Namespaces), Mirror: list(want.Namespaces)}
	}
	return nil
}
