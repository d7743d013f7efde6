package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// errorText describes an error in one line for users. It omits Go's wrapping and adds a
// remedy where one is known.
func errorText(err error) string {
	var (
		usage     *usageError
		unsynced  *informer.NotSyncedError
		refusal   *wire.Error
		transport *wire.TransportError
	)
	switch {
	case errors.As(err, &usage):
		return oneLine(usage.text)
	case errors.As(err, &unsynced):
		for _, src := range unsynced.Sources {
			if cause := src.Err(); cause != nil {
				return fmt.Sprintf("cannot list %s: %s", unsynced.Informer, errorText(cause))
			}
		}
		return unsynced.Informer + ": list timed out: no response from the server"
	case errors.As(err, &transport):
		return network(transport.Err)
	case errors.As(err, &refusal):
		return refused(refusal)
	case errors.Is(err, object.ErrIdle), errors.Is(err, object.ErrCorrupt):
		return network(err)
	}
	return oneLine(err.Error())
}

// refused describes an error response.
func refused(err *wire.Error) string {
	message := oneLine(err.Status().Message)
	switch {
	case apierrors.IsUnauthorized(err):
		return "the server rejected the kubeconfig's credentials: " + message
	case apierrors.IsForbidden(err):
		return message
	case message == "":
		return fmt.Sprintf("server rejected %s: status %d", err.Call, err.Code)
	}
	return fmt.Sprintf("server rejected %s: %s", err.Call, message)
}

// network describes a transport error.
func network(err error) string {
	var (
		unknownCA *x509.UnknownAuthorityError
		byValue   x509.UnknownAuthorityError
		wrongHost x509.HostnameError
		badCert   x509.CertificateInvalidError
		noTLS     tls.RecordHeaderError
		dns       *net.DNSError
		op        *net.OpError
		slow      net.Error
	)
	text := oneLine(err.Error())
	_, credentials, plugin := strings.Cut(text, "getting credentials: ")
	switch {
	case errors.As(err, &unknownCA), errors.As(err, &byValue):
		return "the server's certificate is signed by an unknown authority; check certificate-authority in the kubeconfig"
	case errors.As(err, &wrongHost), errors.As(err, &badCert):
		return "the server's certificate is invalid: " + lastOf(err)
	case errors.As(err, &noTLS):
		return "the server does not use TLS; check the server's address in the kubeconfig"
	case plugin:
		return "the kubeconfig's credential plugin failed: " + credentials
	case errors.As(err, &dns):
		return fmt.Sprintf("cannot resolve the server's host name %s: %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("connection to %s refused; is the server running?", op.Addr)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "the server did not respond in time"
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil:
		return fmt.Sprintf("cannot connect to %s: %s", op.Addr, lastOf(op))
	case errors.Is(err, object.ErrIdle):
		return "the connection was idle for too long"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection to the server was lost"
	case errors.Is(err, object.ErrCorrupt):
		return "the server's response is malformed"
	}
	return "the connection to the server failed: " + lastOf(err)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
