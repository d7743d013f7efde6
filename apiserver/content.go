package apiserver

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// The calls here write as a client does, but without HTTP, and with the status. They are
// for filling a server before a test or a demonstration. Errors are those of the API.

// kindOf finds the kind of an object, which need not say it when its Go type does.
func (s *Server) kindOf(obj runtime.Object) (*kind, error) {
	if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("apiserver: the object is nil")
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind != "" {
		return s.catalog.byKind(gvk)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, fmt.Errorf("apiserver: an object of type %T does not say its kind: %w", obj, err)
	}
	return s.catalog.byKind(kinds[0])
}

// own makes a copy of an object that the server may keep, of the Go type in which the
// kind is stored. Objects of other types, such as those of custom resources, are
// converted by their JSON fields.
func (s *Server) own(obj runtime.Object) (k *kind, _ runtime.Object, err error) {
	k, err = s.kindOf(obj)
	if err != nil {
		return nil, nil, err
	}
	if k.review {
		return nil, nil, fmt.Errorf("apiserver: objects of kind %s are not stored", k.Kind)
	}
	defer func() {
		// How apimachinery refuses values that JSON does not have.
		if p := recover(); p != nil {
			err = fmt.Errorf("apiserver: reading a %s from a %T: %v", k.Kind, obj, p)
		}
	}()
	if into := k.empty(); reflect.TypeOf(obj) == reflect.TypeOf(into) {
		obj = obj.DeepCopyObject()
	} else {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err == nil {
			err = fromTree(runtime.DeepCopyJSON(tree), into)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("apiserver: reading a %s: %w", k.Kind, err)
		}
		obj = into
	}
	return k, k.toHome(obj), nil
}

// Create stores a new object and returns it as stored, not to be written to. An object
// without a namespace is put into "default".
func (s *Server) Create(obj runtime.Object) (runtime.Object, error) {
	k, obj, err := s.own(obj)
	if err != nil {
		return nil, err
	}
	m := metaOf(obj)
	if k.Namespaced && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
	rec, err := s.create(k, m.GetNamespace(), obj, false)
	if err != nil {
		return nil, err
	}
	return k.present(rec.obj), nil
}

// Update replaces an object, with its status, and returns it as stored. When it has a
// version, that must be the newest.
func (s *Server) Update(obj runtime.Object) (runtime.Object, error) {
	k, obj, err := s.own(obj)
	if err != nil {
		return nil, err
	}
	key := object.Key{Namespace: metaOf(obj).GetNamespace(), Name: metaOf(obj).GetName()}
	for {
		old := s.storage.get(k, key)
		if old == nil {
			return nil, notFound(k, key.Name)
		}
		next := obj.DeepCopyObject()
		if next, err = s.prepare(k, "", old, next, "tarn"); err != nil {
			return nil, err
		}
		if k.status {
			setStatus(next, obj)
		}
		if rec, ok, err := s.store(k, old, next); err != nil {
			return nil, err
		} else if ok {
			return k.present(rec.obj), nil
		}
	}
}

// Delete removes an object, known by kind, namespace and name, as a client does without
// grace: what has finalizers is only marked.
func (s *Server) Delete(obj runtime.Object) error {
	k, obj, err := s.own(obj)
	if err != nil {
		return err
	}
	key := object.Key{Namespace: metaOf(obj).GetNamespace(), Name: metaOf(obj).GetName()}
	old := s.storage.get(k, key)
	if old == nil {
		return notFound(k, key.Name)
	}
	var atOnce int64
	_, _, err = s.delete(k, old, &metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
	return err
}

// Get returns an object as stored, not to be written to, or the API's "not found".
func (s *Server) Get(gvr schema.GroupVersionResource, key object.Key) (runtime.Object, error) {
	k, err := s.catalog.get(gvr)
	if err != nil {
		return nil, err
	}
	rec := s.storage.get(k, key)
	if rec == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), key.Name)
	}
	return k.present(rec.obj), nil
}

// Watches counts the open watches of a resource, or of all for the empty name.
func (s *Server) Watches(resource string) (n int) {
	s.storage.mu.Lock()
	defer s.storage.mu.Unlock()
	is := named(resource)
	for _, b := range s.storage.buckets {
		for w := range b.watchers {
			if is(w.kind) {
				n++
			}
		}
	}
	return n
}
