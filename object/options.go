package object

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Match selects how the server interprets the Version of a list (resourceVersionMatch).
type Match string

// The matches of the API. The empty Match leaves it to the server: "not older than" without
// a limit, "exactly" with one.
const (
	NotOlderThan Match = "NotOlderThan"
	Exact        Match = "Exact"
)

// Selection restricts a list or a watch. The zero Selection is everything.
type Selection struct {
	// Namespace restricts to one namespace. Defaults to all of them.
	Namespace string
	// Labels is a label selector. Defaults to no restriction.
	Labels string
	// Fields is a field selector. Defaults to no restriction.
	Fields string
	// Shard is a part of the objects. Servers may ignore it; [Intake.Shard] then drops the others.
	// Defaults to all objects.
	Shard Shard
}

// ListOptions are the parameters of a list request.
type ListOptions struct {
	Selection
	// Version selects the state: "" for the most recent, "0" for any, otherwise according
	// to Match. Defaults to the most recent.
	Version Version
	// Match selects how Version is interpreted. Defaults to the server's choice.
	Match Match
	// Limit is the page size. Defaults to no paging.
	Limit int64
	// Continue is the token of the previous page; Version and Match must then be empty.
	// Defaults to the first page.
	Continue string
}

// WatchOptions are the parameters of a watch request.
type WatchOptions struct {
	Selection
	// Version is where the watch starts. "" and "0" start with the current state as
	// synthetic Added events.
	Version Version
	// Match must be NotOlderThan when InitialEvents is set, and empty otherwise.
	Match Match
	// InitialEvents requests a streaming list: first the current state, which ends with a
	// bookmark that has InitialEnd set. Defaults to false.
	InitialEvents bool
	// Bookmarks requests bookmarks. Defaults to false.
	Bookmarks bool
	// Timeout is when the server ends the watch. Defaults to the server's choice.
	Timeout time.Duration
}

// Resource describes an API resource: its group, version, plural name and kind.
type Resource struct {
	Group    string
	Version  string
	Resource string // the plural of the URL, such as "pods"
	Kind     string
	// Namespaced is false for cluster-scoped resources.
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

// String returns "pods" for the core group, otherwise "deployments.apps", without the
// version, as kubectl does.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}
