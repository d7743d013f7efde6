package crd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// definition is the [apiserver.Schema] of CustomResourceDefinition itself, which has Go
// types.
type definition struct{ schemas *schemas }

// Prune implements [apiserver.Schema].
func (d definition) Prune(u *unstructured.Unstructured) ([]string, error) {
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	body := maps.Clone(u.Object)
	delete(body, "metadata")
	id, err := digestOf(body)
	if err != nil {
		return nil, err
	}
	p, ok := d.schemas.pruned.Load(id)
	if !ok {
		if p, err = prune(body); err != nil {
			return nil, err
		}
		if body["status"] == nil { // a new definition, which other servers may get too
			d.schemas.pruned.Store(id, p)
		}
	}
	u.Object = runtime.DeepCopyJSON(p.(*pruned).body)
	return append(unknown, p.(*pruned).unknown...), objectmeta.SetObjectMeta(u.Object, meta)
}

// pruned is a definition without metadata and unknown fields. It is not modified.
type pruned struct {
	body    map[string]any
	unknown []string
}

// prune decodes a definition into its Go type and encodes it again.
func prune(body map[string]any) (*pruned, error) {
	p := new(pruned)
	var crd apiextensionsv1.CustomResourceDefinition
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(body, &crd, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			var path string
			if _, err := fmt.Sscanf(e.Error(), "unknown field %q", &path); err == nil {
				p.unknown = append(p.unknown, path)
			}
		}
	} else if err != nil {
		// kube-apiserver returns the JSON decoder's message.
		if raw, e := json.Marshal(body); e == nil {
			err = cmp.Or(kjson.UnmarshalCaseSensitivePreserveInts(raw, &crd), err)
		}
		return nil, err
	}
	if p.body, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&crd); err != nil {
		return nil, err
	}
	delete(p.body, "metadata")
	if body["status"] == nil {
		delete(p.body, "status") // the Go type always has one
	}
	return p, nil
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
func (d definition) Validate(ctx context.Context, obj, old *unstructured.Unstructured, subresource string) field.ErrorList {
	if old == nil {
		return d.validateNew(ctx, obj)
	}
	crd, _, err := internal(obj)
	if err != nil {
		return undecodable(err)
	}
	before, _, err := internal(old)
	if err != nil {
		return undecodable(err)
	}
	if subresource == "status" {
		return validation.ValidateUpdateCustomResourceDefinitionStatus(ctx, crd, before)
	}
	keepStored(crd)
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, before)
}

// validateNew validates a new definition, unless it was accepted before.
func (d definition) validateNew(ctx context.Context, obj *unstructured.Unstructured) field.ErrorList {
	id, err := identify(obj)
	if err != nil {
		return undecodable(err)
	}
	if _, ok := d.schemas.accepted.Load(id); ok {
		return metavalidation.ValidateObjectMetaAccessor(obj, false, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	crd, v1, err := internal(obj)
	if err != nil {
		return undecodable(err)
	}
	crd.Status.StoredVersions = nil
	keepStored(crd)
	errs := validation.ValidateCustomResourceDefinition(ctx, crd)
	if len(errs) == 0 {
		d.schemas.keep(id, v1)
	}
	return errs
}

func undecodable(err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
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

// internal decodes a definition and converts it to the version that Kubernetes validates.
func internal(u *unstructured.Unstructured) (*apiextensions.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinition, error) {
	v1 := new(apiextensionsv1.CustomResourceDefinition)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, v1); err != nil {
		return nil, nil, err
	}
	out := new(apiextensions.CustomResourceDefinition)
	// The result shares memory with what it was converted from.
	return out, v1, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(v1.DeepCopy(), out, nil)
}

// TypeConverter implements [apiserver.Schema]. The types are deduced.
func (definition) TypeConverter() (managedfields.TypeConverter, error) { return nil, nil }

// OpenAPI implements [apiserver.Schema]. There is none.
func (definition) OpenAPI() ([]byte, error) { return nil, nil }
