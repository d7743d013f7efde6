package kinds

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/special"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// Schemas enforces CustomResourceDefinitions. Its methods may be called from any goroutine.
type Schemas interface {
	// Validate validates a new definition or, if old is not nil, an update, including the
	// metadata. The subresource is "" or "status". To validate a definition again should be fast:
	// Server.Load validates all of them at the same time first.
	Validate(ctx context.Context, definition, old *apiextensionsv1.CustomResourceDefinition, subresource string) field.ErrorList
	// Compile returns the schema of every version of a valid definition, by version.
	Compile(definition *apiextensionsv1.CustomResourceDefinition) (map[string]Schema, error)
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

// Admit defaults a decoded object, and prunes that of a custom resource.
func (k *Kind) Admit(obj runtime.Object) error {
	special.Of(obj).Normalise(obj)
	if k.Strict {
		builtin.Default(obj)
	}
	if k.Schema == nil {
		return nil
	}
	u := obj.(*unstructured.Unstructured)
	if _, err := k.Schema.Prune(u); err != nil {
		return err
	}
	k.Schema.Default(u)
	return nil
}

// Validate checks names and metadata and, with a schema or Options.Strict, the whole object. old is nil for a
// new object.
func (k *Kind) Validate(obj, old runtime.Object, subresource string) error {
	m := MetaOf(obj)
	var errs field.ErrorList
	if d, ok := obj.(*Definition); ok && k.schemas != nil {
		before, _ := old.(*Definition)
		errs = k.schemas.Validate(context.Background(), d, before, subresource)
	} else if k.Schema == nil {
		errs = k.validateMeta(m)
		if k.Strict {
			is, was := obj, old
			if e, ok := obj.(*corev1.Event); ok && old != nil { // an update of the other kind is stricter
				is, was = Converted(e, k.GVK().GroupVersion()), Converted(old, k.GVK().GroupVersion())
			}
			errs = append(errs, builtin.Validate(is, was, subresource)...)
		}
	} else {
		before, _ := old.(*unstructured.Unstructured)
		errs = k.Schema.Validate(context.Background(), obj.(*unstructured.Unstructured), before, subresource)
	}
	errs = append(errs, checkWebhooks(obj)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(k.Storage.GVK().GroupKind(), m.GetName(), errs)
	}
	return nil
}

// Native reports whether the kind serves the object of a record without conversion.
func (k *Kind) Native(r *Record) bool { return k.isStorage() && k.Schema == r.Schema }

// Working returns the object of a record in the version that writes work on: the storage
// version of a built-in kind, the requested version of a custom resource. The caller must
// not modify it.
func (k *Kind) Working(r *Record) runtime.Object {
	if k.Typed {
		return r.Obj
	}
	return k.Present(r)
}

// convert returns a copy of a stored custom resource in the version of k, as
// kube-apiserver does with the conversion strategy None.
func (k *Kind) convert(u *unstructured.Unstructured) *unstructured.Unstructured {
	if k.Schema == nil {
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
	_ = k.Admit(out)
	return out
}

// StrictErrors returns the duplicate and unknown fields of an object in JSON.
func (k *Kind) StrictErrors(raw []byte) []error {
	var tree map[string]any
	errs, err := json.UnmarshalStrict(raw, &tree)
	if err != nil {
		return nil // decoding succeeded before
	}
	unknown, _ := k.Schema.Prune(&unstructured.Unstructured{Object: tree})
	for _, path := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %q", path))
	}
	return errs
}

// checkWebhooks rejects webhooks with matchConditions, which need CEL.
func checkWebhooks(obj runtime.Object) (errs field.ErrorList) {
	check := func(i int, conditions []admissionregistrationv1.MatchCondition) {
		if len(conditions) > 0 {
			errs = append(errs, field.Forbidden(field.NewPath("webhooks").Index(i).Child("matchConditions"), "the embedded API server does not evaluate CEL expressions of webhooks"))
		}
	}
	switch o := obj.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			check(i, o.Webhooks[i].MatchConditions)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			check(i, o.Webhooks[i].MatchConditions)
		}
	}
	return errs
}
