package request

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckOptions validates the query parameters of a write.
func (r *Request) CheckOptions(patchType types.PatchType) error {
	query := r.URL.Query()
	dry, manager, validate := query["dryRun"], query.Get("fieldManager"), query.Get("fieldValidation")
	var kind string
	var errs field.ErrorList
	switch {
	case r.Verb == "create":
		kind = "CreateOptions"
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: dry, FieldManager: manager, FieldValidation: validate})
	case r.Verb == "update":
		kind = "UpdateOptions"
		errs = validation.ValidateUpdateOptions(&metav1.UpdateOptions{DryRun: dry, FieldManager: manager, FieldValidation: validate})
	default:
		kind = "PatchOptions"
		opts := &metav1.PatchOptions{DryRun: dry, FieldManager: manager, FieldValidation: validate}
		if force := query.Get("force"); force != "" {
			is := strings.EqualFold(force, "true") || force == "1"
			opts.Force = &is
		}
		errs = validation.ValidatePatchOptions(opts, patchType)
	}
	return InvalidOptions(kind, errs)
}

// InvalidOptions returns the error for the options of a write, or nil if there are no errors.
func InvalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// InvalidPatch is the error for a patch whose result is not an object of the kind.
func InvalidPatch(patched []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), err.Error())})
}

// checkTable validates the table options in the query.
func (r *Request) checkTable() error {
	if r.Rep.As != "Table" {
		return nil
	}
	opts := &metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))}
	if errs := validation.ValidateTableOptions(opts); len(errs) > 0 {
		return apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
	return nil
}
