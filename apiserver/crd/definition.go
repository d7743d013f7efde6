package crd

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate implements [apiserver.Schemas].
func (schemas) Validate(ctx context.Context, crd, old *apiextensionsv1.CustomResourceDefinition, subresource string) field.ErrorList {
	if old == nil {
		id := identify(crd)
		if _, ok := accepted.Get(id); ok {
			return metavalidation.ValidateObjectMetaAccessor(crd, false, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		}
		is, err := internal(crd)
		if err != nil {
			return undecodable(err)
		}
		is.Status.StoredVersions = nil
		keepStored(is)
		errs := validation.ValidateCustomResourceDefinition(ctx, is)
		if len(errs) == 0 {
			keep(id, crd.DeepCopy())
		}
		return errs
	}
	is, err := internal(crd)
	if err != nil {
		return undecodable(err)
	}
	was, err := internal(old)
	if err != nil {
		return undecodable(err)
	}
	if subresource == "status" {
		return validateStatus(ctx, is, was)
	}
	keepStored(is)
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, is, was)
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

// internal converts a definition to the version that Kubernetes validates.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := new(apiextensions.CustomResourceDefinition)
	// The result shares memory with what it was converted from.
	return out, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(), out, nil)
}
