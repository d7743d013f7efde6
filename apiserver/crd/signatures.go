package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Functions of apiextensions-apiserver that have a context since v0.37.

// validateStatus calls validation.ValidateUpdateCustomResourceDefinitionStatus.
func validateStatus(ctx context.Context, crd, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	type definition = *apiextensions.CustomResourceDefinition
	if validate, ok := any(validation.ValidateUpdateCustomResourceDefinitionStatus).(func(definition, definition) field.ErrorList); ok {
		return validate(crd, old)
	}
	return any(validation.ValidateUpdateCustomResourceDefinitionStatus).(func(context.Context, definition, definition) field.ErrorList)(ctx, crd, old)
}

// validateEmbedded calls objectmeta.Validate, for the metadata of embedded objects.
func validateEmbedded(ctx context.Context, obj map[string]any, s *schema.Structural) field.ErrorList {
	if validate, ok := any(objectmeta.Validate).(func(*field.Path, any, *schema.Structural, bool) field.ErrorList); ok {
		return validate(nil, obj, s, false)
	}
	return any(objectmeta.Validate).(func(context.Context, *field.Path, any, *schema.Structural, bool) field.ErrorList)(ctx, nil, obj, s, false)
}
