package crd

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// definition is the [apiserver.Schema] of CustomResourceDefinition itself, which has Go
// types. It is stateless.
type definition struct{}

// Prune implements [apiserver.Schema].
func (definition) Prune(u *unstructured.Unstructured) (unknown []string, err error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	strict, err := kjson.UnmarshalStrict(raw, &crd)
	if err != nil {
		return nil, err
	}
	for _, e := range strict {
		if at, ok := e.(kjson.FieldError); ok {
			unknown = append(unknown, at.FieldPath())
		}
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd)
	if err != nil {
		return nil, err
	}
	if u.Object["status"] == nil {
		delete(tree, "status") // the Go type always has one
	}
	u.Object = tree
	return unknown, nil
}

// Default implements [apiserver.Schema].
func (definition) Default(u *unstructured.Unstructured) {
	spec, _ := u.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	// Only these have defaults; the versions would be slow to convert.
	part := map[string]any{}
	for _, name := range []string{"names", "conversion"} {
		if spec[name] != nil {
			part[name] = spec[name]
		}
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if runtime.DefaultUnstructuredConverter.FromUnstructured(part, &crd.Spec) != nil {
		return // validation returns the error
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&crd)
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd.Spec)
	if err != nil {
		return
	}
	spec["names"], spec["conversion"] = tree["names"], tree["conversion"]
}

// Validate implements [apiserver.Schema].
func (definition) Validate(ctx context.Context, obj, old *unstructured.Unstructured, subresource string) field.ErrorList {
	crd, err := internal(obj)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
	}
	if old == nil {
		crd.Status.StoredVersions = nil
		keepStored(crd)
		return validation.ValidateCustomResourceDefinition(ctx, crd)
	}
	before, err := internal(old)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
	}
	if subresource == "status" {
		return validation.ValidateUpdateCustomResourceDefinitionStatus(ctx, crd, before)
	}
	keepStored(crd)
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, before)
}

// keepStored adds the storage version to the stored versions.
func keepStored(crd *apiextensions.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			return
		}
	}
}

// internal converts a definition to the version that Kubernetes validates.
func internal(u *unstructured.Unstructured) (*apiextensions.CustomResourceDefinition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
		return nil, err
	}
	out := new(apiextensions.CustomResourceDefinition)
	return out, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, out, nil)
}

// TypeConverter implements [apiserver.Schema]. The types are deduced.
func (definition) TypeConverter() (managedfields.TypeConverter, error) { return nil, nil }

// OpenAPI implements [apiserver.Schema]. There is none.
func (definition) OpenAPI() ([]byte, error) { return nil, nil }
