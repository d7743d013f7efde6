package apiserver

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/apiserver/builtin"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// Schemas enforces CustomResourceDefinitions for [Options.Schemas]. Package apiserver/crd
// implements it with the code of Kubernetes. It is an interface, so that programs without
// custom resources do not link that code. Its methods may be called from any goroutine.
type Schemas interface {
	// Definition returns the schema of CustomResourceDefinition itself. To validate a definition
	// again should be fast: [Server.Load] validates all of them at the same time first.
	Definition() Schema
	// Compile returns the schema of every version of a valid definition, by version.
	Compile(definition *unstructured.Unstructured) (map[string]Schema, error)
}

// Schema is the schema of one version of a custom resource. Its methods may be called from
// any goroutine. They modify only the objects of Prune and Default.
type Schema interface {
	// Prune removes unknown fields from an object and returns their paths. It returns an
	// error if the object cannot be decoded.
	Prune(obj *unstructured.Unstructured) (unknown []string, err error)
	// Default sets omitted fields to their defaults.
	Default(obj *unstructured.Unstructured)
	// Validate validates a new object or, if old is not nil, an update, including the
	// metadata. The subresource is "" or "status".
	Validate(ctx context.Context, obj, old *unstructured.Unstructured, subresource string) field.ErrorList
	// TypeConverter returns the types of all versions for server-side apply. If it returns
	// nil, types are deduced and lists are atomic.
	TypeConverter() (managedfields.TypeConverter, error)
	// OpenAPI returns an OpenAPI v3 document of this version in JSON, or nil.
	OpenAPI() ([]byte, error)
}

// admit defaults a decoded object, and prunes that of a custom resource.
func (k *kind) admit(obj runtime.Object) error {
	normalise(obj)
	if k.strict {
		builtin.Default(obj)
	}
	if k.schema == nil {
		return nil
	}
	u := obj.(*unstructured.Unstructured)
	if _, err := k.schema.Prune(u); err != nil {
		return err
	}
	k.schema.Default(u)
	return nil
}

// validate checks names and metadata and, with a schema or Options.Strict, the whole object. old is nil for a
// new object.
func (k *kind) validate(obj, old runtime.Object, subresource string) error {
	m := metaOf(obj)
	var errs field.ErrorList
	if k.schema == nil {
		errs = k.validateMeta(m)
		if k.strict {
			is, was := obj, old
			if e, ok := obj.(*corev1.Event); ok && old != nil { // an update of the other kind is stricter
				is, was = converted(e, k.GVK().GroupVersion()), converted(old, k.GVK().GroupVersion())
			}
			errs = append(errs, builtin.Validate(is, was, subresource)...)
		}
	} else {
		before, _ := old.(*unstructured.Unstructured)
		errs = k.schema.Validate(context.Background(), obj.(*unstructured.Unstructured), before, subresource)
	}
	errs = append(errs, checkWebhooks(obj)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(k.storage.GVK().GroupKind(), m.GetName(), errs)
	}
	return nil
}

// native reports whether the kind serves the object of a record without conversion.
func (k *kind) native(r *record) bool { return k.isStorage() && k.schema == r.schema }

// working returns the object of a record in the version that writes work on: the storage
// version of a built-in kind, the requested version of a custom resource. The caller must
// not modify it.
func (k *kind) working(r *record) runtime.Object {
	if k.typed {
		return r.obj
	}
	return k.present(r)
}

// convert returns a copy of a stored custom resource in the version of k, as
// kube-apiserver does with the conversion strategy None.
func (k *kind) convert(u *unstructured.Unstructured) *unstructured.Unstructured {
	if k.schema == nil {
		// The nested values are shared, since stored objects are never modified.
		shown := make(map[string]any, len(u.Object))
		for name, value := range u.Object {
			shown[name] = value
		}
		shown["apiVersion"] = k.GVK().GroupVersion().String()
		return &unstructured.Unstructured{Object: shown}
	}
	out := u.DeepCopy()
	out.SetAPIVersion(k.GVK().GroupVersion().String())
	// Objects that a later schema cannot decode are served as they are.
	_ = k.admit(out)
	return out
}

// strictErrors returns the duplicate and unknown fields of an object in JSON.
func (k *kind) strictErrors(raw []byte) []error {
	var tree map[string]any
	errs, err := json.UnmarshalStrict(raw, &tree)
	if err != nil {
		return nil // decoding succeeded before
	}
	unknown, _ := k.schema.Prune(&unstructured.Unstructured{Object: tree})
	for _, path := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %q", path))
	}
	return errs
}
