package apiserver

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The methods here write like a client, but without HTTP and including the status. They
// populate a server for tests and demos. They return API errors.

// Create stores a new object and returns it as stored; the caller must not modify the
// result. A namespaced object without a namespace is created in "default".
func (s *Server) Create(obj runtime.Object) (runtime.Object, error) {
	k, obj, err := s.registry.Own(obj)
	if err != nil {
		return nil, err
	}
	return s.registry.CreateOwned(k, obj)
}

// Update replaces an object, including its status, and returns it as stored. If the object
// has a resource version, it must be the latest.
func (s *Server) Update(obj runtime.Object) (runtime.Object, error) {
	k, obj, err := s.registry.Own(obj)
	if err != nil {
		return nil, err
	}
	return s.registry.UpdateOwned(k, obj)
}

// Delete deletes the object with obj's kind, namespace and name, without a grace period and
// in a single write. An object with finalizers is only marked for deletion.
func (s *Server) Delete(obj runtime.Object) error {
	k, obj, err := s.registry.Own(obj)
	if err != nil {
		return err
	}
	key := object.Key{Namespace: kinds.MetaOf(obj).GetNamespace(), Name: kinds.MetaOf(obj).GetName()}
	old := s.storage.Get(k, key)
	if old == nil {
		return kinds.NotFound(k, key.Name)
	}
	return s.registry.RemoveOwned(k, old)
}

// Get returns an object as stored, or a NotFound error. The caller must not modify it.
func (s *Server) Get(gvr schema.GroupVersionResource, key object.Key) (runtime.Object, error) {
	k, err := s.catalog.Get(gvr)
	if err != nil {
		return nil, err
	}
	rec := s.storage.Get(k, key)
	if rec == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), key.Name)
	}
	return k.Present(rec), nil
}

// Watches returns the number of open watches of a resource, or of all resources if it is
// empty.
func (s *Server) Watches(resource string) int { return s.storage.Watches(kinds.Named(resource)) }
