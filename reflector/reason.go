package reflector

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// Reason is why a request ended, as a short word that suits a metric's label.
type Reason string

// The reasons.
const (
	Closed       Reason = "closed"       // the server ended a watch normally
	Short        Reason = "short"        // a watch was closed within a second, without an event
	Expired      Reason = "expired"      // 410: the version or the continue token has expired
	TooLarge     Reason = "too-large"    // the server has not reached the version yet
	Throttled    Reason = "throttled"    // 429
	Unavailable  Reason = "unavailable"  // 503, 504
	Refused      Reason = "refused"      // connection refused
	DNS          Reason = "dns"          // the server's name does not resolve
	TLS          Reason = "tls"          // the certificate is not trusted, or the server does not speak TLS
	Network      Reason = "network"      // any other failure of the connection
	ServerError  Reason = "server-error" // 500 and the like
	Unauthorized Reason = "unauthorized" // 401
	Forbidden    Reason = "forbidden"    // 403
	NotFound     Reason = "not-found"    // 404
	Rejected     Reason = "rejected"     // any other 4xx
	Corrupt      Reason = "corrupt"      // object.ErrCorrupt
	WrongKind    Reason = "wrong-kind"   // object.ErrWrongKind
	Silent       Reason = "silent"       // the server sent nothing for too long
	NoBookmark   Reason = "no-bookmark"  // a streaming list did not complete
	Rewind       Reason = "rewind"       // the server's history was restored from a backup
	Unordered    Reason = "unordered"    // a watch from no version sent objects out of order
	Requested    Reason = "requested"    // Reflector.Relist was called
	Confirming   Reason = "confirming"   // a watch was opened again to ask for a bookmark; not a failure
)

// reasonOf classifies the error of a request. The io.EOF of a stream that the server ended
// normally must be handled before; any other io.EOF means that the connection broke.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, object.ErrWrongKind):
		return WrongKind
	case errors.Is(err, object.ErrCorrupt):
		return Corrupt
	case errors.Is(err, object.ErrIdle):
		return Silent
	case errors.Is(err, errShort):
		return Short
	case errors.Is(err, errUnordered):
		return Unordered
	case errors.Is(err, errHistory):
		return Rewind
	}
	if asked := (*askedError)(nil); errors.As(err, &asked) {
		return Requested
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return reasonOfStatus(err, status.Status())
	}
	return reasonOfNetwork(err)
}

func reasonOfStatus(err error, status metav1.Status) Reason {
	code := status.Code
	switch {
	case tooLarge(err, status):
		return TooLarge
	case code == http.StatusGone || status.Reason == metav1.StatusReasonExpired || status.Reason == metav1.StatusReasonGone:
		return Expired
	case code == http.StatusTooManyRequests || status.Reason == metav1.StatusReasonTooManyRequests:
		return Throttled
	case code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout, code == http.StatusBadGateway,
		status.Reason == metav1.StatusReasonServiceUnavailable,
		status.Reason == metav1.StatusReasonTimeout, status.Reason == metav1.StatusReasonServerTimeout:
		return Unavailable
	case code == http.StatusUnauthorized || status.Reason == metav1.StatusReasonUnauthorized:
		return Unauthorized
	case code == http.StatusForbidden || status.Reason == metav1.StatusReasonForbidden:
		return Forbidden
	case code == http.StatusNotFound || status.Reason == metav1.StatusReasonNotFound:
		return NotFound
	case code >= 400 && code < 500,
		status.Reason == metav1.StatusReasonBadRequest, status.Reason == metav1.StatusReasonInvalid:
		return Rejected
	}
	return ServerError
}

// tooLarge reports whether the server was asked for a version that it has not reached. Servers
// before 1.18.6 send no cause for that, only a text.
func tooLarge(err error, status metav1.Status) bool {
	const text = "Too large resource version"
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	if status.Code != http.StatusGatewayTimeout && status.Reason != metav1.StatusReasonTimeout {
		return false
	}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if strings.Contains(cause.Message, text) {
				return true
			}
		}
	}
	return strings.Contains(status.Message, text)
}

func reasonOfNetwork(err error) Reason {
	var (
		dns       *net.DNSError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return TLS
	}
	return Network
}

// maxRetryAfter bounds the Retry-After that is honoured.
const maxRetryAfter = 10 * time.Minute

// retryAfter returns how long the server asks the client to wait.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return time.Duration(min(int64(seconds), int64(maxRetryAfter/time.Second))) * time.Second
}

// askedError ends the request in progress because Relist was called.
type askedError struct{ cause error }

func (e *askedError) Error() string { return "a list was requested: " + e.cause.Error() }

func (e *askedError) Unwrap() error { return e.cause }

// causeOf returns why ctx is done, or err if it is not.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
