package apierror

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// NotServed is the error for an unknown resource.
func NotServed() error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Message = "the server could not find the requested resource"
	return err
}

// Failed is the error that the real server returns for an error without a status: 500 without
// a reason.
func Failed(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}

// NotAllowed is the error for a method that the path does not support.
func NotAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// NotAcceptable is the error for a request whose Accept header cannot be satisfied.
func NotAcceptable(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: message,
	}}
}

// NotSupported is the error for an unsupported Content-Type.
func NotSupported(accepted ...types.PatchType) error {
	message := "415: Unsupported Media Type"
	if len(accepted) > 0 {
		message = "the body of the request was in an unknown format - accepted media types include: "
		for i, a := range accepted {
			if i > 0 {
				message += ", "
			}
			message += string(a)
		}
	}
	err := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
	if len(accepted) == 0 {
		err.ErrStatus.Details = &metav1.StatusDetails{}
	}
	return err
}
