package apiserver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/apiserver/builtin"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ownership tracks field managers with apimachinery's managedfields. Schemas of the
// built-in kinds come from client-go's apply configurations, those of custom resources from
// their definitions. Parsing them is slow and happens on the first apply.
type ownership struct {
	typed func() managedfields.TypeConverter

	mu       sync.Mutex // guards managers
	managers map[managerKey]*managedfields.FieldManager
}

type managerKey struct {
	kind        *kind
	subresource string
}

func newOwnership() *ownership {
	return &ownership{
		typed:    sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) }),
		managers: map[managerKey]*managedfields.FieldManager{},
	}
}

func (o *ownership) manager(k *kind, subresource string) (*managedfields.FieldManager, error) {
	key := managerKey{k, subresource}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.managers[key]; m != nil {
		return m, nil
	}
	var m *managedfields.FieldManager
	var err error
	if k.typed {
		gvk, types := k.storage.GVK(), managedfields.NewDeducedTypeConverter()
		if k != scaleKind { // the apply configurations have no schema of it
			types = o.typed()
		}
		m, err = managedfields.NewDefaultFieldManager(types, noConversion{scheme.Scheme}, scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), subresource, nil)
	} else {
		m, err = k.fieldManager(subresource)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the field manager of %v: %w", k.GVK(), err)
	}
	o.managers[key] = m
	return m, nil
}

// forget drops the field managers of kinds that are no longer served.
func (o *ownership) forget(kinds []*kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.managers {
		if slices.Contains(kinds, key.kind) {
			delete(o.managers, key)
		}
	}
}

// fieldManager returns the field manager for a version of a custom resource.
func (k *kind) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	types := managedfields.NewDeducedTypeConverter()
	if k.schema != nil {
		if t, err := k.schema.TypeConverter(); err != nil {
			return nil, err
		} else if t != nil {
			types = t
		}
	}
	// Fields that a write ignores do not get an owner.
	var ignored []fieldpath.Path
	switch {
	case subresource == "status":
		ignored = []fieldpath.Path{fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")}
	case k.status:
		ignored = []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	}
	gvk := k.GVK()
	reset := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewSet(ignored...)}
	return managedfields.NewDefaultCRDFieldManager(types, renaming{scheme.Scheme, k}, defaulting{k.schema}, unstructuredCreator{},
		gvk, gvk.GroupVersion(), subresource, fieldpath.NewExcludeFilterSetMap(reset))
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
		return nil, failed(err.Error())
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && k.typed {
		obj = k.storage.empty()
		if err := fromTree(u.Object, obj); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if k.strict {
		builtin.Default(obj)
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

// renaming converts between the versions of a custom resource: only apiVersion differs.
type renaming struct {
	*runtime.Scheme
	kind *kind
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (c renaming) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if !ok || !slices.Contains(c.kind.versions, to.Version) {
		return nil, runtime.NewNotRegisteredErrForTarget("apiserver", reflect.TypeOf(in), target)
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(to)
	return out, nil
}

// defaulting is a [runtime.ObjectDefaulter] for custom resources. The schema may be nil.
type defaulting struct{ schema Schema }

// Default implements [runtime.ObjectDefaulter].
func (d defaulting) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && d.schema != nil {
		d.schema.Default(u)
	}
}

// unstructuredCreator is a [runtime.ObjectCreater] for custom resources.
type unstructuredCreator struct{}

// New implements [runtime.ObjectCreater].
func (unstructuredCreator) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := new(unstructured.Unstructured)
	u.SetGroupVersionKind(gvk)
	return u, nil
}
