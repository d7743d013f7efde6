package apiserver

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error messages here match those of the real server where clients read them.

// pageNotFound responds to a path outside of the API. Like the real server, it sends no
// Status.
func (s *Server) pageNotFound(w http.ResponseWriter, req *http.Request) {
	defer s.requests.answered(req)
	s.respondRaw(w, req, "text/plain; charset=utf-8", http.StatusNotFound, []byte("404 page not found\n"))
}

// checkBody rejects unsupported content types.
func checkBody(req *http.Request) error {
	header := req.Header.Get("Content-Type")
	if header == "" {
		return nil
	}
	switch media, _, _ := mime.ParseMediaType(header); media {
	case "application/json", "application/yaml", "application/vnd.kubernetes.protobuf":
		return nil
	}
	return apierror.NotSupported("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
}

// checkOptions validates the query parameters of a write.
func (r *request) checkOptions(patchType types.PatchType) error {
	query := r.URL.Query()
	dry, manager, validate := query["dryRun"], query.Get("fieldManager"), query.Get("fieldValidation")
	var kind string
	var errs field.ErrorList
	switch {
	case r.verb == "create":
		kind = "CreateOptions"
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: dry, FieldManager: manager, FieldValidation: validate})
	case r.verb == "update":
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
	return invalidOptions(kind, errs)
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// invalidPatch is the error for a patch whose result is not an object of the kind.
func invalidPatch(patched []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), err.Error())})
}

// checkTable validates the table options in the query.
func (r *request) checkTable() error {
	if r.rep.As != "Table" {
		return nil
	}
	opts := &metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))}
	if errs := validation.ValidateTableOptions(opts); len(errs) > 0 {
		return apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
	return nil
}

// cannotConvert is the error for an object that does not have the requested form.
func cannotConvert(as string, obj runtime.Object, list bool) error {
	is := "not a list"
	if list {
		is = "a list"
	}
	return apierror.NotAcceptable(fmt.Sprintf("you requested %s, but the requested object is %s (%T)", as, is, obj))
}
