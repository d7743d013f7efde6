package crd

import (
	"context"
	"fmt"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Prune implements [apiserver.Schema].
func (v *version) Prune(u *unstructured.Unstructured) ([]string, error) {
	s := v.compiled().structural
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(u.Object, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	failed, paths := objectmeta.CoerceWithOptions(nil, u.Object, s, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if failed != nil {
		return nil, failed
	}
	if found {
		err = objectmeta.SetObjectMeta(u.Object, meta)
	}
	return append(unknown, paths...), err
}

// Default implements [apiserver.Schema].
func (v *version) Default(u *unstructured.Unstructured) {
	defaulting.Default(u.Object, v.compiled().structural)
}

// Validate implements [apiserver.Schema]. Its checks and their order are those of
// kube-apiserver.
func (v *version) Validate(ctx context.Context, obj, old *unstructured.Unstructured, subresource string) field.ErrorList {
	r := v.compiled()
	errs := metavalidation.ValidateObjectMetaAccessor(obj, v.crd.Spec.Scope == apiextensionsv1.NamespaceScoped, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	var before any
	var celOptions []cel.Option
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, obj.Object, r.schema)...)
	} else {
		before = old.Object
		both := common.NewCorrelatedObject(obj.Object, old.Object, &model.Structural{Structural: r.structural})
		celOptions = append(celOptions, cel.WithRatcheting(both))
		if subresource != "status" {
			errs = append(errs, validation.ValidateCustomResourceUpdate(nil, obj.Object, old.Object, r.schema, validation.WithRatcheting(both))...)
		} else if status, found := obj.Object["status"]; found && r.status != nil {
			errs = append(errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], r.status, validation.WithRatcheting(both.Key("status")))...)
		}
	}
	errs = append(errs, v.validateScale(obj, subresource)...)
	if subresource != "status" {
		errs = append(errs, validateEmbedded(ctx, obj.Object, r.structural)...)
	}
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, r.structural, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj.Object)...)
	}
	if r.cel == nil {
		return errs
	}
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	broken, _ := r.cel.Validate(ctx, nil, r.structural, obj.Object, before, celconfig.RuntimeCELCostBudget, celOptions...)
	return append(errs, broken...)
}

// validateScale checks the fields behind the scale subresource.
func (v *version) validateScale(obj *unstructured.Unstructured, subresource string) (errs field.ErrorList) {
	if v.Subresources == nil || v.Subresources.Scale == nil {
		return nil
	}
	split := func(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
	replicas := func(path string) {
		n, _, err := unstructured.NestedInt64(obj.Object, split(path)...)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(path), n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	scale := v.Subresources.Scale
	if subresource != "status" {
		replicas(scale.SpecReplicasPath)
	}
	replicas(scale.StatusReplicasPath)
	if path := scale.LabelSelectorPath; path != nil {
		if selector, _, err := unstructured.NestedString(obj.Object, split(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}
