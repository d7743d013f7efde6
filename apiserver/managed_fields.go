package apiserver

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// ownership tracks field managers with apimachinery's managedfields. Schemas of the
// built-in kinds come from client-go's apply configurations. Parsing them is slow and
// happens on the first apply.
type ownership struct {
	typed func() managedfields.TypeConverter

	mu       sync.Mutex // guards managers
	managers map[managerKey]*managedfields.FieldManager
}

type managerKey struct {
	gvk         schema.GroupVersionKind
	subresource string
}

func newOwnership() *ownership {
	return &ownership{
		typed:    sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) }),
		managers: map[managerKey]*managedfields.FieldManager{},
	}
}

func (o *ownership) manager(k *kind, subresource string) (*managedfields.FieldManager, error) {
	gvk := k.storage.GVK()
	key := managerKey{gvk, subresource}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.managers[key]; m != nil {
		return m, nil
	}
	var m *managedfields.FieldManager
	var err error
	if k.typed {
		m, err = managedfields.NewDefaultFieldManager(o.typed(), noConversion{scheme.Scheme}, scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), subresource, nil)
	} else {
		m, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), noConversion{scheme.Scheme}, noDefaults{}, unstructuredCreator{}, gvk, gvk.GroupVersion(), subresource, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the field manager of %v: %w", gvk, err)
	}
	o.managers[key] = m
	return m, nil
}

// applied merges an apply configuration into live and updates the managed fields. A
// conflict is an API error that names the other managers.
func (o *ownership) applied(k *kind, subresource string, live runtime.Object, applied *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	m, err := o.manager(k, subresource)
	if err != nil {
		return nil, err
	}
	obj, err := m.Apply(live, applied.DeepCopy(), manager, force)
	if err != nil {
		if api := apierrors.APIStatus(nil); errors.As(err, &api) {
			return nil, err
		}
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && k.typed {
		obj = k.storage.empty()
		if err := fromTree(u.Object, obj); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return obj, nil
}

// updated updates the managed fields after another write. Objects that were never applied
// have none.
func (o *ownership) updated(k *kind, subresource string, old, next runtime.Object, manager string) (runtime.Object, error) {
	if manager == "" {
		return next, nil // already done by applied
	}
	if len(metaOf(old).GetManagedFields()) == 0 {
		metaOf(next).SetManagedFields(nil)
		return next, nil
	}
	m, err := o.manager(k, subresource)
	if err != nil {
		return nil, err
	}
	return m.UpdateNoErrors(old, next, manager), nil
}

// noConversion is a converter for objects that are in the target version already, since
// each storage holds only one.
type noConversion struct{ *runtime.Scheme }

// ConvertToVersion implements [runtime.ObjectConvertor].
func (s noConversion) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		// A blank object created by the field manager.
		kinds, _, err := s.ObjectKinds(in)
		if err != nil {
			return nil, err
		}
		gvk = kinds[0]
		in.GetObjectKind().SetGroupVersionKind(gvk)
	}
	if to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk}); !ok || to != gvk {
		return nil, runtime.NewNotRegisteredErrForTarget("apiserver", reflect.TypeOf(in), target)
	}
	return in, nil
}

// noDefaults is a [runtime.ObjectDefaulter] for custom resources.
type noDefaults struct{}

// Default does nothing.
func (noDefaults) Default(runtime.Object) {}

// unstructuredCreator is a [runtime.ObjectCreater] for custom resources.
type unstructuredCreator struct{}

// New implements [runtime.ObjectCreater].
func (unstructuredCreator) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := new(unstructured.Unstructured)
	u.SetGroupVersionKind(gvk)
	return u, nil
}
