package registry

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// KindOf returns the kind of an object, from its apiVersion and kind or else its Go type, which is a built-in
// one or has a method APIResource.
func (s *Registry) KindOf(obj runtime.Object) (*kinds.Kind, error) {
	if isNil(obj) {
		return nil, errors.New("apiserver: the object is nil")
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind != "" {
		return s.Catalog.ByKind(gvk)
	}
	if described, ok := obj.(interface{ APIResource() object.Resource }); ok {
		return s.Catalog.Get(described.APIResource().GVR())
	}
	gvks, _, err := kinds.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, fmt.Errorf("apiserver: no kind for object of type %T: %w", obj, err)
	}
	return s.Catalog.ByKind(gvks[0])
}

func isNil(obj runtime.Object) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Own returns a copy of obj in the Go type that the kind is stored in, pruned and defaulted.
// Other Go types, such as those of custom resources, are converted through their JSON fields.
func (s *Registry) Own(obj runtime.Object) (k *kinds.Kind, _ runtime.Object, err error) {
	k, err = s.KindOf(obj)
	if err != nil {
		return nil, nil, err
	}
	if k.Review {
		return nil, nil, fmt.Errorf("apiserver: objects of kind %s are not stored", k.Kind)
	}
	defer func() {
		// apimachinery panics on values that JSON cannot represent.
		if p := recover(); p != nil {
			err = fmt.Errorf("apiserver: reading a %s from a %T: %v", k.Kind, obj, p)
		}
	}()
	if into := k.Empty(); reflect.TypeOf(obj) == reflect.TypeOf(into) {
		obj = obj.DeepCopyObject()
	} else {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err == nil {
			err = kinds.FromTree(runtime.DeepCopyJSON(tree), into)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("apiserver: reading a %s: %w", k.Kind, err)
		}
		into.GetObjectKind().SetGroupVersionKind(k.GVK()) // an object with the method APIResource may lack it
		obj = into
	}
	if !k.Namespaced {
		kinds.MetaOf(obj).SetNamespace("")
	}
	if k.Typed {
		obj = k.ToStorage(obj)
	}
	if err := k.Admit(obj); err != nil {
		return nil, nil, fmt.Errorf("apiserver: reading a %s: %w", k.Kind, err)
	}
	return k, obj, nil
}

// CreateOwned is Create for the result of own.
func (s *Registry) CreateOwned(k *kinds.Kind, obj runtime.Object) (runtime.Object, error) {
	m := kinds.MetaOf(obj)
	if k.Namespaced && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
	rec, err := s.create(k, m.GetNamespace(), obj, false, nil)
	if err != nil {
		return nil, err
	}
	return k.Present(rec), nil
}

// UpdateOwned is Update for the result of own.
func (s *Registry) UpdateOwned(k *kinds.Kind, obj runtime.Object) (runtime.Object, error) {
	key := object.Key{Namespace: kinds.MetaOf(obj).GetNamespace(), Name: kinds.MetaOf(obj).GetName()}
	for {
		old := s.Storage.Get(k, key)
		if old == nil {
			return nil, kinds.NotFound(k, key.Name)
		}
		next, err := s.Ownership.Updated(k, "", k.Working(old), obj.DeepCopyObject(), "tarn")
		if err != nil {
			return nil, err
		}
		next, err = s.prepare(k, everything, old, next)
		if err != nil {
			return nil, err
		}
		if rec, ok, err := s.store(k, old, next); err != nil {
			return nil, err
		} else if ok {
			return k.Present(rec), nil
		}
	}
}

// RemoveOwned deletes an object without a grace period and in a single write.
func (s *Registry) RemoveOwned(k *kinds.Kind, old *kinds.Record) error {
	var atOnce int64
	_, _, more, err := s.markOrRemove(k, old, &metav1.DeleteOptions{GracePeriodSeconds: &atOnce}, false)
	s.processGC(more...)
	return err
}
