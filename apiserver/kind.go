package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// kind is a resource in one of its versions, with what the server must know to serve it.
// It does not change once it is in the catalog.
type kind struct {
	object.Resource
	// home is what the objects are stored under: the kind itself for all but the further
	// versions of a custom resource, those that were defined again, and the events of
	// events.k8s.io.
	home *kind

	singular         string
	shortNames       []string
	categories       []string
	typed            bool // has a Go type in the scheme
	status           bool // has the status subresource
	scale            *scalePaths
	review           bool // is answered and never stored
	columns          []column
	selectableFields []string
}

// scalePaths tell where a kind keeps what the scale subresource shows.
type scalePaths struct{ spec, status, selector []string }

// stored reports whether this is the version in which objects are stored.
func (k *kind) stored() bool { return k.GVK() == k.home.GVK() }

// listKind is the kind of a list of it.
func (k *kind) listKind() schema.GroupVersionKind {
	gvk := k.GVK()
	gvk.Kind += "List"
	return gvk
}

// verbs are those that discovery names.
func (k *kind) verbs() metav1.Verbs {
	if k.review {
		return metav1.Verbs{"create"}
	}
	if !k.typed {
		return metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	}
	return metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// empty makes a new object, without content but with its kind.
func (k *kind) empty() runtime.Object {
	if !k.typed {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(k.GVK())
		return u
	}
	obj, err := scheme.Scheme.New(k.GVK())
	if err != nil {
		panic("apiserver: " + err.Error()) // typed says that it is there
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK())
	return obj
}

// present returns an object as this version of the resource shows it.
func (k *kind) present(obj runtime.Object) runtime.Object {
	if e, ok := obj.(*corev1.Event); ok && !k.stored() {
		return eventOf(e)
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || k.stored() {
		return obj
	}
	// The rest is shared: nobody writes to it.
	shown := make(map[string]any, len(u.Object))
	for name, value := range u.Object {
		shown[name] = value
	}
	shown["apiVersion"] = k.GVK().GroupVersion().String()
	return &unstructured.Unstructured{Object: shown}
}

// catalog holds the kinds that are served.
type catalog struct {
	mu    sync.RWMutex // guards kinds
	kinds map[schema.GroupVersionResource]*kind
}

// get finds a kind by its path.
func (c *catalog) get(gvr schema.GroupVersionResource) (*kind, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.kinds[gvr]; k != nil {
		return k, nil
	}
	return nil, notServed()
}

// hasGroup reports whether anything is served of a group.
func (c *catalog) hasGroup(group string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gvr := range c.kinds {
		if gvr.Group == group {
			return true
		}
	}
	return false
}

// byKind finds a kind by that of an object, as Go callers have it.
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

// owner finds a kind by an owner reference, in whatever version.
func (c *catalog) owner(apiVersion, name string) *kind {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, k := range c.kinds {
		if k.Group == gv.Group && k.Kind == name && !k.review {
			return k.home
		}
	}
	return nil
}

// named returns the kinds that a name such as "pods" or "deployments.apps" stands for;
// all for the empty name.
func named(name string) func(*kind) bool {
	return func(k *kind) bool { return name == "" || name == k.Resource.Resource || name == k.String() }
}

// all returns the kinds in the order of discovery: by group, newest version first, by
// name.
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

// homes returns the kinds that objects are stored under.
func (c *catalog) homes() []*kind {
	return slices.DeleteFunc(c.all(), func(k *kind) bool { return !k.stored() || k.review })
}

// put adds kinds, in place of those at the same paths.
func (c *catalog) put(kinds ...*kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range kinds {
		c.kinds[k.GVR()] = k
	}
}

// drop removes all versions of a resource and returns them.
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

// versions returns all versions of a resource.
func (c *catalog) versions(gr schema.GroupResource) (kinds []*kind) {
	for _, k := range c.all() {
		if k.GVR().GroupResource() == gr {
			kinds = append(kinds, k)
		}
	}
	return kinds
}
