package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// kind is one version of a resource. It is immutable once it is in the catalog.
type kind struct {
	object.Resource
	// storage is the kind that objects are stored under. It differs from the kind itself
	// for additional versions of a custom resource, for redefined ones, and for
	// events.k8s.io.
	storage *kind

	singular         string
	shortNames       []string
	categories       []string
	typed            bool // has a Go type in the scheme
	strict           bool // has kube-apiserver's defaults and validation
	status           bool // has the status subresource
	scale            *scalePaths
	review           bool // answered and never stored
	columns          []column
	selectableFields []string
	deprecated       string // warning for every request, or ""

	// The rest is for custom resources.
	listName string   // kind of lists; the kind and "List" if it is empty
	versions []string // of the whole resource, including those that are not served
	// schema is nil without Options.Schemas, storageSchema is that of the storage version.
	schema, storageSchema Schema
}

// builtin reports whether kube-apiserver has the kind without a definition.
func (k *kind) builtin() bool { return k.typed || k.Group == "apiextensions.k8s.io" }

// isStorage reports whether objects are stored in this version.
func (k *kind) isStorage() bool { return k.GVK() == k.storage.GVK() }

func (k *kind) listKind() schema.GroupVersionKind {
	gvk := k.GVK()
	gvk.Kind = cmp.Or(k.listName, gvk.Kind+"List")
	return gvk
}

var (
	builtinVerbs   = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	customVerbs    = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	namespaceVerbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	statusVerbs    = metav1.Verbs{"get", "list"}
	createVerb     = metav1.Verbs{"create"}
)

// verbs returns the verbs that the kind supports, in the order of discovery. The caller must
// not modify them.
func (k *kind) verbs() metav1.Verbs {
	switch {
	case k.review:
		return createVerb
	case !k.builtin():
		return customVerbs
	case k.Group == "" && k.Kind == "Namespace":
		return namespaceVerbs
	case k.Group == "" && k.Kind == "ComponentStatus":
		return statusVerbs
	}
	return builtinVerbs
}

// empty returns a new object with only kind and apiVersion set.
func (k *kind) empty() runtime.Object {
	if !k.typed {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(k.GVK())
		return u
	}
	obj, err := scheme.Scheme.New(k.GVK())
	if err != nil {
		panic("apiserver: " + err.Error()) // typed kinds are in the scheme
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK())
	return obj
}

// present returns the object of a record in this version of the resource. The caller must
// not modify it.
func (k *kind) present(r *record) runtime.Object {
	if k.native(r) {
		return r.obj
	}
	if o, ok := r.obj.(*unstructured.Unstructured); ok {
		return k.convert(o)
	}
	return converted(r.obj, k.GVK().GroupVersion())
}

// catalog holds the served kinds.
type catalog struct {
	mu    sync.RWMutex // guards kinds
	kinds map[schema.GroupVersionResource]*kind
}

func (c *catalog) get(gvr schema.GroupVersionResource) (*kind, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.kinds[gvr]; k != nil {
		return k, nil
	}
	return nil, notServed()
}

// has reports whether any resource of a group is served, and of its version if all are custom.
func (c *catalog) has(group, version string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gvr, k := range c.kinds {
		if gvr.Group == group && (version == "" || gvr.Version == version || k.builtin()) {
			return true
		}
	}
	return false
}

// byKind looks up a kind by an object's GVK.
func (c *catalog) byKind(gvk schema.GroupVersionKind) (*kind, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, k := range c.kinds {
		if k.GVK() == gvk {
			return k, nil
		}
	}
	return nil, fmt.Errorf("apiserver: the kind %v is not served", gvk)
}

// owner looks up the kind of an owner reference, in any version.
func (c *catalog) owner(apiVersion, name string) *kind {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, k := range c.kinds {
		if k.Group == gv.Group && k.Kind == name && !k.review {
			return k.storage
		}
	}
	return nil
}

// named returns a filter for a resource name such as "pods" or "deployments.apps". An empty
// name matches all.
func named(name string) func(*kind) bool {
	return func(k *kind) bool { return name == "" || name == k.Resource.Resource || name == k.String() }
}

// all returns the kinds in discovery order: by group, then newest version first, then name.
func (c *catalog) all() []*kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*kind, 0, len(c.kinds))
	for _, k := range c.kinds {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *kind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version),
			strings.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return out
}

// storageKinds returns one kind for each set of stored objects.
func (c *catalog) storageKinds() []*kind {
	return slices.DeleteFunc(oncePerStorage(c.all()), func(k *kind) bool { return k.review })
}

// oncePerStorage removes kinds that share the objects of an earlier one.
func oncePerStorage(kinds []*kind) []*kind {
	seen := map[*kind]bool{}
	return slices.DeleteFunc(kinds, func(k *kind) bool {
		again := seen[k.storage]
		seen[k.storage] = true
		return again
	})
}

// put adds kinds and replaces those at the same paths.
func (c *catalog) put(kinds ...*kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range kinds {
		c.kinds[k.GVR()] = k
	}
}

// drop removes and returns all versions of a resource.
func (c *catalog) drop(gr schema.GroupResource) (dropped []*kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for gvr, k := range c.kinds {
		if gvr.GroupResource() == gr {
			dropped = append(dropped, k)
			delete(c.kinds, gvr)
		}
	}
	return dropped
}

// versions returns all versions of a resource in any order.
func (c *catalog) versions(gr schema.GroupResource) (kinds []*kind) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gvr, k := range c.kinds {
		if gvr.GroupResource() == gr {
			kinds = append(kinds, k)
		}
	}
	return kinds
}
