package object

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Match says how a list's Version is meant.
type Match string

// The meanings that the API knows. The empty Match leaves it to the server:
// "not older than" without a limit, "exactly" with one.
const (
	NotOlderThan Match = "NotOlderThan"
	Exact        Match = "Exact"
)

// Selection narrows a list or a watch. The zero Selection is everything.
type Selection struct {
	// Namespace restricts to one namespace. Defaults to all of them.
	Namespace string
	// Labels is a label selector in its text form. Defaults to no restriction.
	Labels string
	// Fields is a field selector in its text form. Defaults to no restriction.
	Fields string
}

// ListOptions say which state of a selection to list, and in which portions.
type ListOptions struct {
	Selection
	// Version asks for a state: "" for the most recent, "0" for any, another as
	// Match says. Defaults to the most recent.
	Version Version
	// Match says how Version is meant. Defaults to the server's own reading.
	Match Match
	// Limit is the number of items a page should have. Defaults to no paging.
	Limit int64
	// Continue asks for the page after the one that returned this token; Version
	// and Match must then be empty. Defaults to the first page.
	Continue string
}

// WatchOptions say where a watch begins and when it ends.
type WatchOptions struct {
	Selection
	// Version is where the watch begins. "" and "0" begin with the present state
	// as synthetic Added events.
	Version Version
	// Match must be NotOlderThan when InitialEvents is set, and empty otherwise.
	Match Match
	// InitialEvents asks for a streaming list: the state first, closed by a
	// bookmark with InitialEnd. Defaults to false.
	InitialEvents bool
	// Bookmarks asks the server for bookmarks. Defaults to false.
	Bookmarks bool
	// Timeout asks the server to end the watch after this time. Defaults to the
	// server's choice.
	Timeout time.Duration
}

// Resource describes an API resource: where it is served and what its objects
// are called.
type Resource struct {
	Group    string
	Version  string
	Resource string // the plural of the URL, such as "pods"
	Kind     string
	// Namespaced tells whether objects live in namespaces.
	Namespaced bool
}

// GVR returns the resource's group, version and resource.
func (r Resource) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// GVK returns the group, version and kind of the resource's objects.
func (r Resource) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// String returns "pods" for the core group, otherwise "deployments.apps"; the
// version is left out, as kubectl does.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}
