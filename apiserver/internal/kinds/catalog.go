package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Catalog holds the served kinds.
type Catalog struct {
	mu    sync.RWMutex // guards kinds
	kinds map[schema.GroupVersionResource]*Kind
}

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog { return &Catalog{kinds: map[schema.GroupVersionResource]*Kind{}} }

// Get returns the kind of a resource, or a NotFound error.
func (c *Catalog) Get(gvr schema.GroupVersionResource) (*Kind, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.kinds[gvr]; k != nil {
		return k, nil
	}
	return nil, apierror.NotServed()
}

// find returns the kinds that match, in any order.
func (c *Catalog) find(match func(*Kind) bool) (found []*Kind) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, k := range c.kinds {
		if match(k) {
			found = append(found, k)
		}
	}
	return found
}

// Has reports whether any resource of a group is served, and of its version if all are custom.
func (c *Catalog) Has(group, version string) bool {
	return len(c.find(func(k *Kind) bool { return k.Group == group && (version == "" || k.Version == version || k.Typed) })) > 0
}

// ByKind looks up a kind by an object's GVK.
func (c *Catalog) ByKind(gvk schema.GroupVersionKind) (*Kind, error) {
	if found := c.find(func(k *Kind) bool { return k.GVK() == gvk }); found != nil {
		return found[0], nil
	}
	return nil, fmt.Errorf("apiserver: the kind %v is not served", gvk)
}

// Owner looks up the kind of an owner reference, in any version.
func (c *Catalog) Owner(apiVersion, name string) *Kind {
	gv, err := schema.ParseGroupVersion(apiVersion)
	found := c.find(func(k *Kind) bool { return k.Group == gv.Group && k.Kind == name && !k.Review })
	if err != nil || found == nil {
		return nil
	}
	return found[0].Storage
}

// Versions returns all versions of a resource in any order.
func (c *Catalog) Versions(gr schema.GroupResource) []*Kind {
	return c.find(func(k *Kind) bool { return k.GVR().GroupResource() == gr })
}

// All returns the kinds in discovery order: by group, then newest version first, then name.
func (c *Catalog) All() []*Kind {
	return slices.SortedFunc(slices.Values(c.find(func(*Kind) bool { return true })), func(a, b *Kind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version),
			strings.Compare(a.Resource.Resource, b.Resource.Resource))
	})
}

// StorageKinds returns one kind for each set of stored objects.
func (c *Catalog) StorageKinds() []*Kind {
	return slices.DeleteFunc(OncePerStorage(c.All()), func(k *Kind) bool { return k.Review })
}

// OncePerStorage removes kinds that share the objects of an earlier one.
func OncePerStorage(kinds []*Kind) []*Kind {
	seen := map[*Kind]bool{}
	return slices.DeleteFunc(kinds, func(k *Kind) bool {
		again := seen[k.Storage]
		seen[k.Storage] = true
		return again
	})
}

// Put adds kinds and replaces those at the same paths.
func (c *Catalog) Put(kinds ...*Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range kinds {
		c.kinds[k.GVR()] = k
	}
}

// Drop removes and returns all versions of a resource.
func (c *Catalog) Drop(gr schema.GroupResource) (dropped []*Kind) {
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

// Named returns a filter for a resource name such as "pods" or "deployments.apps". An empty
// name matches all.
func Named(name string) func(*Kind) bool {
	return func(k *Kind) bool { return name == "" || name == k.Resource.Resource || name == k.String() }
}
