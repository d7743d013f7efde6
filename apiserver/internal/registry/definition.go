package registry

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// instancesFinalizer keeps a terminating CustomResourceDefinition until none of its objects
// exist.
const instancesFinalizer = apiextensionsv1.CustomResourceCleanupFinalizer

// instances returns the objects of the definition with a name. It returns none for a built-in
// resource, of which a definition may exist but has no effect.
func (s *Registry) instances(definition string) (found []dependent) {
	for _, k := range kinds.OncePerStorage(s.Catalog.Versions(schema.ParseGroupResource(definition))) {
		if k.Typed {
			return nil
		}
		for _, rec := range s.Storage.All(k, "") {
			found = append(found, dependent{k, rec})
		}
	}
	return found
}

func (s *Registry) hasInstances(definition string) bool { return len(s.instances(definition)) > 0 }

// deleteInstances deletes the objects of a terminating definition, and then the definition. If
// objects have finalizers, that happens when the last of them is removed.
func (s *Registry) deleteInstances(definition *kinds.Record) (more []gcItem) {
	for _, o := range s.instances(definition.Key.Name) {
		// An error means that a concurrent request deleted it.
		_, _, then, _ := s.deleteOne(o.kind, o.rec, new(metav1.DeleteOptions))
		more = append(more, then...)
	}
	if !s.hasInstances(definition.Key.Name) {
		return append(more, s.releaseDefinition(definition.Key.Name)...)
	}
	next := definition.Obj.DeepCopyObject().(*kinds.Definition)
	kinds.SetCondition(next, apiextensionsv1.Terminating, true, "InstanceDeletionInProgress", "CustomResource deletion is in progress", *next.DeletionTimestamp)
	s.Storage.Commit(s.definitions, definition.Key, definition, next) // unless there is a newer state
	return more
}

// releaseDefinition deletes a terminating definition once it has no objects.
func (s *Registry) releaseDefinition(name string) []gcItem {
	d := s.Storage.Get(s.definitions, object.Key{Name: name})
	if d != nil && d.Meta.GetDeletionTimestamp() != nil && !s.hasInstances(name) {
		return s.removeFinalizer(s.definitions, d.Key, instancesFinalizer)
	}
	return nil
}
