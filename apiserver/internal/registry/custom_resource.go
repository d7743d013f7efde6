package registry

import (
	"fmt"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Define serves the versions of a custom resource.
func (s *Registry) Define(kinds []*kinds.Kind) error {
	gr := kinds[0].GVR().GroupResource()
	old := s.Catalog.Versions(gr)
	if len(old) > 0 {
		if old[0].Typed {
			return fmt.Errorf("apiserver: %v is a built-in resource", gr)
		}
		// Existing objects are stored under the kind that was defined first.
		storage := old[0].Storage
		for _, k := range kinds {
			k.Storage = storage
		}
	}
	s.Ownership.Forget(s.Catalog.Drop(gr))
	s.Catalog.Put(kinds...)
	return nil
}

// undefine is drop without garbage collection. It returns the deletions to process.
// It does nothing for a built-in resource, of which a definition may exist but has no effect.
func (s *Registry) undefine(group, resource string) (more []gcItem) {
	gr := schema.GroupResource{Group: group, Resource: resource}
	if versions := s.Catalog.Versions(gr); len(versions) > 0 && versions[0].Typed {
		return nil
	}
	dropped := s.Catalog.Drop(gr)
	s.Ownership.Forget(dropped)
	for _, k := range kinds.OncePerStorage(dropped) {
		for _, r := range s.Storage.Remove(k) {
			more = append(more, gcItem{kind: k, old: r, rec: r, deleted: true})
		}
	}
	return more
}

// Drop deletes all objects of a custom resource and stops serving it.
func (s *Registry) Drop(group, resource string) { s.processGC(s.undefine(group, resource)...) }
