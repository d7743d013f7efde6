package kinds

import (
	"cmp"

	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one version of a resource. It is immutable once it is in the catalog.
type Kind struct {
	object.Resource
	// Storage is the kind that objects are stored under. It differs from the kind itself
	// for additional versions of a custom resource, for redefined ones, and for
	// events.k8s.io.
	Storage *Kind

	Singular         string
	ShortNames       []string
	Categories       []string
	Typed            bool // has a Go type in the scheme, as kube-apiserver's own kinds have
	Strict           bool // has kube-apiserver's defaults and validation
	Status           bool // has the status subresource
	Scale            *ScalePaths
	Review           bool // answered and never stored
	Columns          []Column
	SelectableFields []string
	Deprecated       string // warning for every request, or ""

	// The rest is for custom resources.
	listName string   // kind of lists; the kind and "List" if it is empty
	Versions []string // of the whole resource, including those that are not served
	// Schema is nil without Options.Schemas, StorageSchema is that of the storage version.
	Schema, StorageSchema Schema

	schemas Schemas // of definitions; nil for other kinds and without Options.Schemas
}

// isStorage reports whether objects are stored in this version.
func (k *Kind) isStorage() bool { return k.GVK() == k.Storage.GVK() }

// ListKind returns the kind of lists.
func (k *Kind) ListKind() schema.GroupVersionKind {
	gvk := k.GVK()
	gvk.Kind = cmp.Or(k.listName, gvk.Kind+"List")
	return gvk
}

var (
	builtinVerbs   = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	customVerbs    = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	namespaceVerbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	statusVerbs    = metav1.Verbs{"get", "list"}
	createVerb     = metav1.Verbs{"create"}
)

// Verbs returns the verbs that the kind supports, in the order of discovery. The caller must
// not modify them.
func (k *Kind) Verbs() metav1.Verbs {
	switch {
	case k.Review:
		return createVerb
	case !k.Typed:
		return customVerbs
	case k.Group == "" && k.Kind == "Namespace":
		return namespaceVerbs
	case k.Group == "" && k.Kind == "ComponentStatus":
		return statusVerbs
	}
	return builtinVerbs
}

// Empty returns a new object with only kind and apiVersion set.
func (k *Kind) Empty() runtime.Object {
	if !k.Typed {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(k.GVK())
		return u
	}
	obj, err := Scheme.New(k.GVK())
	if err != nil {
		panic("apiserver: " + err.Error()) // typed kinds are in the scheme
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK())
	return obj
}

// Present returns the object of a record in this version of the resource. The caller must
// not modify it.
func (k *Kind) Present(r *Record) runtime.Object {
	if k.Native(r) {
		return r.Obj
	}
	if o, ok := r.Obj.(*unstructured.Unstructured); ok {
		return k.convert(o)
	}
	return Converted(r.Obj, k.GVK().GroupVersion())
}

// IsLease reports whether the kind is Lease. Leader election renews leases all the time, so
// they do not count as activity.
func (k *Kind) IsLease() bool { return k.Kind == "Lease" && k.Group == "coordination.k8s.io" }

// Blank returns the object that a new one is compared with.
func (k *Kind) Blank() runtime.Object {
	if k.Typed {
		return k.Storage.Empty()
	}
	return k.Empty()
}
