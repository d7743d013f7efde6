package sim

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	things = schema.GroupResource{Group: "sim.example", Resource: "things"}
	kind   = schema.GroupKind{Group: "sim.example", Kind: "Thing"}
)

// The errors are what client-go's and Tarn's clients make of an answer.

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

func invalid() error { return apierrors.NewInvalid(kind, "", nil) }

// gone is 410, for a watch, an exact list or a continue token.
func (q Quirks) gone(at, oldest uint64) *apierrors.StatusError {
	text := fmt.Sprintf("too old resource version: %d (%d)", at, oldest)
	err := apierrors.NewResourceExpired(text)
	if q.GoneReason {
		err.ErrStatus.Reason = metav1.StatusReasonGone
	}
	return err
}

// tooLarge is 504, for a version that is not there yet.
func (q Quirks) tooLarge(at, newest uint64) error {
	text := fmt.Sprintf("Too large resource version: %d, current: %d", at, newest)
	err := apierrors.NewTimeoutError(text, 1)
	if !q.TextOnly {
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
		}}
	}
	return err
}

func notFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "list", things, "", "404 page not found", 0, true)
}

func unauthorized() error { return apierrors.NewUnauthorized("the token has expired") }

func forbidden() error {
	return apierrors.NewForbidden(things, "", fmt.Errorf("not allowed for now"))
}

func busy(seconds int) error {
	return apierrors.NewTooManyRequests("the server has received too many requests", seconds)
}

func internal() error { return apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed")) }

func unavailable() error { return apierrors.NewServiceUnavailable("apiserver is shutting down") }

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}
