package apiserver

import (
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Import makes changes to a resource that no client can make: objects are stored as given, also their UIDs,
// times and status, and keys are removed whatever the finalizers. All changes have one version, as those at
// the end of an etcd lease do: version, or the next one if that is later. Without changes, Import only
// advances the version, as changes of other resources do. It returns the version.
func (s *Server) Import(gvr schema.GroupVersionResource, version uint64, put []runtime.Object, removed ...object.Key) (uint64, error) {
	k, err := s.catalog.Get(gvr)
	if err == nil {
		put, err = s.asGiven(put)
	}
	if err != nil {
		return 0, err
	}
	return s.storage.Import(version, k, put, removed), nil
}

// Restore makes objects, as given, the only ones of a resource at a version, which may be an earlier one, as a
// restore of etcd from a backup does. They keep their resource versions; one that has none gets that of the
// backup. Later changes of other resources are undone, and all watches are cut.
func (s *Server) Restore(gvr schema.GroupVersionResource, version uint64, objs ...runtime.Object) error {
	k, err := s.catalog.Get(gvr)
	if err == nil {
		objs, err = s.asGiven(objs)
	}
	if err == nil {
		s.storage.Restore(version, k, objs)
	}
	return err
}

// Objects returns the objects of a resource as stored, sorted by key. The caller must not modify them.
func (s *Server) Objects(gvr schema.GroupVersionResource) (objs []runtime.Object, err error) {
	k, err := s.catalog.Get(gvr)
	if err == nil {
		for _, rec := range s.storage.All(k, "") {
			objs = append(objs, k.Present(rec))
		}
	}
	return objs, err
}

func (s *Server) asGiven(objs []runtime.Object) (owned []runtime.Object, err error) {
	for _, obj := range objs {
		_, o, err := s.registry.Own(obj)
		if err != nil {
			return nil, err
		}
		owned = append(owned, o)
	}
	return owned, nil
}
