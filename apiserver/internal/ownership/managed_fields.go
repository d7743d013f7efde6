package ownership

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Ownership records in the managed fields of an object who wrote what, as kube-apiserver does: for
// every write of a client, before admission. Server.Create records nothing, and Server.Update only in
// objects that have managed fields. Schemas of the built-in kinds come from client-go's apply configurations, those of custom
// resources from their definitions. Parsing the former is slow and happens once in a process.
type Ownership struct {
	mu       sync.Mutex // guards managers
	managers map[managerKey]*managedfields.FieldManager
}

type managerKey struct {
	kind        *kinds.Kind
	subresource string
}

// New returns an ownership without field managers, which it creates when they are needed.
func New() *Ownership {
	return &Ownership{managers: map[managerKey]*managedfields.FieldManager{}}
}

func (o *Ownership) manager(k *kinds.Kind, subresource string) (*managedfields.FieldManager, error) {
	key := managerKey{k, subresource}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.managers[key]; m != nil {
		return m, nil
	}
	m, err := newFieldManager(k, subresource)
	if err != nil {
		return nil, fmt.Errorf("creating the field manager of %v: %w", k.GVK(), err)
	}
	o.managers[key] = m
	return m, nil
}

// Forget drops the field managers of kinds that are no longer served.
func (o *Ownership) Forget(kinds []*kinds.Kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.managers {
		if slices.Contains(kinds, key.kind) {
			delete(o.managers, key)
		}
	}
}

// builtinTypes has the types of the built-in kinds.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// newFieldManager returns the field manager for a version of a resource.
func newFieldManager(k *kinds.Kind, subresource string) (*managedfields.FieldManager, error) {
	types := managedfields.NewDeducedTypeConverter()
	gv := k.GVK().GroupVersion()
	filters := map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(gv.String()): writableBy(k, subresource)}
	if k.Typed {
		if k != kinds.ScaleKind && k.Group != kinds.Definitions.Group { // the apply configurations have no schema of them
			types = builtinTypes()
		}
		return managedfields.NewDefaultFieldManager(types, typedVersions{kinds.Scheme}, defaulting{k}, kinds.Scheme, k.GVK(), k.Storage.GVK().GroupVersion(), subresource, filters)
	}
	if k.Schema != nil {
		if t, err := k.Schema.TypeConverter(); err != nil {
			return nil, err
		} else if t != nil {
			types = t
		}
	}
	return managedfields.NewDefaultCRDFieldManager(types, customVersions{kinds.Scheme, k}, defaulting{k}, unstructuredCreator{}, k.GVK(), gv, subresource, filters)
}

// writableBy returns a filter for the fields that a write can change. Others do not get an owner.
func writableBy(k *kinds.Kind, subresource string) fieldpath.Filter {
	var ignored []fieldpath.Path
	ignore := func(path ...any) { ignored = append(ignored, fieldpath.MakePathOrDie(path...)) }
	signing := k.String() == "certificatesigningrequests.certificates.k8s.io"
	switch subresource {
	case "status", "approval":
		ignore("spec")
		switch {
		case !k.Typed || kinds.StatusOnly[k.Kind]:
			ignore("metadata")
		case k.Kind == "Pod":
			ignore("metadata", "deletionTimestamp")
			ignore("metadata", "ownerReferences")
		case signing && subresource == "status":
			ignore("status", "conditions")
		case signing:
			ignore("status", "certificate")
		}
	case "", "finalize":
		if k.Status {
			ignore("status")
		}
		if signing {
			ignore("spec")
		}
	}
	return fieldpath.NewExcludeSetFilter(fieldpath.NewSet(ignored...))
}

// Applied merges an apply configuration into live and updates the managed fields. A
// conflict is an API error that names the other managers.
func (o *Ownership) Applied(k *kinds.Kind, subresource string, live runtime.Object, applied *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	m, err := o.manager(k, subresource)
	if err != nil {
		return nil, err
	}
	obj, err := m.Apply(live, applied.DeepCopy(), manager, force)
	if err != nil {
		if api := apierrors.APIStatus(nil); errors.As(err, &api) {
			return nil, err
		}
		return nil, apierror.Failed(err.Error())
	}
	return obj, nil
}

// Updated updates the managed fields of next after another write. The manager is empty if applied
// has done so.
func (o *Ownership) Updated(k *kinds.Kind, subresource string, live, next runtime.Object, manager string) (runtime.Object, error) {
	if manager == "" {
		return next, nil
	}
	if is, was := kinds.MetaOf(next), kinds.MetaOf(live); was.GetUID() != "" && len(was.GetManagedFields())+len(is.GetManagedFields()) == 0 {
		is.SetManagedFields(nil) // not tracked since its creation
		return next, nil
	}
	m, err := o.manager(k, subresource)
	if err != nil {
		return nil, err
	}
	return m.UpdateNoErrors(live, next, manager), nil
}

// KeepTimes restores the times in the managed fields of next if nothing else in it differs from
// live, so that a write without an effect changes nothing.
func KeepTimes(live, next runtime.Object) {
	was, is := kinds.MetaOf(live).GetManagedFields(), kinds.MetaOf(next).GetManagedFields()
	sameTime := func(a, b metav1.ManagedFieldsEntry) bool { return a.Time.Equal(b.Time) }
	if len(was) != len(is) || slices.EqualFunc(was, is, sameTime) {
		return
	}
	then := slices.Clone(is)
	for i := range then {
		then[i].Time = was[i].Time
	}
	if !equality.Semantic.DeepEqual(was, then) {
		return
	}
	kinds.MetaOf(next).SetManagedFields(then)
	if !equality.Semantic.DeepEqual(live, next) {
		kinds.MetaOf(next).SetManagedFields(is)
	}
}

// typedVersions is a converter for the built-in kinds: see [kinds.Converted].
type typedVersions struct{ *runtime.Scheme }

// ConvertToVersion implements [runtime.ObjectConvertor].
func (s typedVersions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
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
	if u, ok := in.(*unstructured.Unstructured); ok {
		obj, err := s.New(gvk)
		if err == nil {
			err = kinds.FromTree(u.Object, obj)
		}
		if err != nil {
			return nil, err
		}
		in = obj
	}
	if gv, ok := target.(schema.GroupVersion); ok {
		if out := kinds.Converted(in, gv); out.GetObjectKind().GroupVersionKind().GroupVersion() == gv {
			return out, nil
		}
	}
	return nil, runtime.NewNotRegisteredErrForTarget("apiserver", reflect.TypeOf(in), target)
}

// customVersions converts between the versions of a custom resource: only apiVersion differs.
type customVersions struct {
	*runtime.Scheme
	kind *kinds.Kind
}

// ConvertToVersion implements [runtime.ObjectConvertor]. Like that of kube-apiserver, its error for an
// unknown version is not a NotRegistered error, so that an apply fails and drops no manager.
func (c customVersions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	switch {
	case !ok:
		return nil, fmt.Errorf("%v is unstructured and is not suitable for converting to %q", from, target)
	case !slices.Contains(c.kind.Versions, to.Version):
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to.GroupVersion())
	case to == from:
		return in, nil
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(to)
	return out, nil
}

// defaulting is a [runtime.ObjectDefaulter] for objects of a kind.
type defaulting struct{ kind *kinds.Kind }

// Default implements [runtime.ObjectDefaulter].
func (d defaulting) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && d.kind.Schema != nil {
		d.kind.Schema.Default(u)
	} else if d.kind.Strict {
		builtin.Default(obj)
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
