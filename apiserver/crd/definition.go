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
type definition struct{}

// Prune implements [apiserver.Schema].
func (definition) Prune(u *unstructured.Unstructured) ([]string, error) {
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	body := maps.Clone(u.Object)
	delete(body, "metadata")
	id := digestOf(body)
	p, ok := decoded.get(id)
	if !ok {
		if p, err = prune(body); err != nil {
			return nil, err
		}
		specs.put(digestOf(p.body["spec"]), &p.crd.Spec)
		if body["status"] == nil { // a new definition, which other servers may get too
			decoded.put(id, p)
		}
	}
	u.Object = runtime.DeepCopyJSON(p.body)
	return append(unknown, p.unknown...), objectmeta.SetObjectMeta(u.Object, meta)
}

// pruned is a definition without metadata and unknown fields, and with defaults.
type pruned struct {
	crd     apiextensionsv1.CustomResourceDefinition
	body    map[string]any // of crd
	unknown []string
}

var (
	decoded cache[*pruned]                                       // by the body as it was sent
	specs   cache[*apiextensionsv1.CustomResourceDefinitionSpec] // by the spec of a pruned body
)

// prune decodes a definition into its Go type, sets the defaults and encodes it again.
func prune(body map[string]any) (*pruned, error) {
	p := new(pruned)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(body, &p.crd); err != nil {
		// kube-apiserver returns the JSON decoder's message.
		if raw, e := json.Marshal(body); e == nil {
			err = cmp.Or(kjson.UnmarshalCaseSensitivePreserveInts(raw, &p.crd), err)
		}
		return nil, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&p.crd)
	var err error
	if p.body, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&p.crd); err != nil {
		return nil, err
	}
	if lacks(p.body, body) {
		p.unknown = unknownFields(body)
	}
	delete(p.body, "metadata")
	if body["status"] == nil {
		delete(p.body, "status") // the Go type always has one
	}
	return p, nil
}

// lacks reports whether any field of before is missing in after, because it is unknown or empty.
func lacks(after, before any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for name, value := range b {
			if kept, ok := a[name]; !ok || lacks(kept, value) {
				return true
			}
		}
	case []any:
		a, _ := after.([]any)
		if len(a) != len(b) {
			return true
		}
		for i := range b {
			if lacks(a[i], b[i]) {
				return true
			}
		}
	}
	return false
}

// unknownFields returns the paths of the unknown fields of a definition. That takes twice as
// long as decoding it.
func unknownFields(body map[string]any) (paths []string) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(body, new(apiextensionsv1.CustomResourceDefinition), true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			var path string
			if _, err := fmt.Sscanf(e.Error(), "unknown field %q", &path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Default implements [apiserver.Schema]. After Prune it changes nothing.
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
	id, spec := identify(obj)
	if _, ok := accepted.get(id); ok && old == nil {
		return metavalidation.ValidateObjectMetaAccessor(obj, false, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	crd, v1, err := internal(obj, spec)
	if err != nil {
		return undecodable(err)
	}
	if old == nil {
		crd.Status.StoredVersions = nil
		keepStored(crd)
		errs := validation.ValidateCustomResourceDefinition(ctx, crd)
		if len(errs) == 0 {
			keep(id, v1)
		}
		return errs
	}
	_, spec = identify(old)
	before, _, err := internal(old, spec)
	if err != nil {
		return undecodable(err)
	}
	if subresource == "status" {
		return validation.ValidateUpdateCustomResourceDefinitionStatus(ctx, crd, before)
	}
	keepStored(crd)
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, before)
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

// decode decodes a definition, of which Prune usually has decoded the spec. The caller must
// not modify the result.
func decode(u *unstructured.Unstructured, spec digest) (*apiextensionsv1.CustomResourceDefinition, error) {
	v1, rest := new(apiextensionsv1.CustomResourceDefinition), u.Object
	known, ok := specs.get(spec)
	if ok {
		rest = maps.Clone(rest)
		delete(rest, "spec")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rest, v1); err != nil {
		return nil, err
	}
	if ok {
		v1.Spec = *known
	}
	return v1, nil
}

// internal decodes a definition and converts it to the version that Kubernetes validates.
func internal(u *unstructured.Unstructured, spec digest) (*apiextensions.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinition, error) {
	v1, err := decode(u, spec)
	if err != nil {
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
