package main

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

// sentence says in one line what went wrong, for somebody at a terminal: what was being
// done in Go's layers is left out, and what to do is added where that is known.
func sentence(err error) string {
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
				return fmt.Sprintf("%s could not be listed: %s", unsynced.Informer, sentence(cause))
			}
		}
		return unsynced.Informer + " could not be listed in time: the server has not answered yet"
	case errors.As(err, &transport):
		return network(transport.Err)
	case errors.As(err, &refusal):
		return refused(refusal)
	case errors.Is(err, object.ErrIdle), errors.Is(err, object.ErrCorrupt):
		return network(err)
	}
	return oneLine(err.Error())
}

// refused says what the server said.
func refused(err *wire.Error) string {
	message := oneLine(err.Status().Message)
	switch {
	case apierrors.IsUnauthorized(err):
		return "the server does not accept the credentials of the kubeconfig: " + message
	case apierrors.IsForbidden(err):
		return message
	case message == "":
		return fmt.Sprintf("the server refused to %s with status %d", err.Call, err.Code)
	}
	return fmt.Sprintf("the server refused to %s: %s", err.Call, message)
}

// network says why there was no answer.
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
		return "the server's certificate is signed by an authority that is not trusted; see certificate-authority in the kubeconfig"
	case errors.As(err, &wrongHost), errors.As(err, &badCert):
		return "the server's certificate is not valid: " + lastOf(err)
	case errors.As(err, &noTLS):
		return "the server does not speak TLS; see the server's address in the kubeconfig"
	case plugin:
		return "the credential plugin of the kubeconfig failed: " + credentials
	case errors.As(err, &dns):
		return fmt.Sprintf("the server's name %s is not known: %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("the server %s refuses connections; is it running?", op.Addr)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "the server did not answer in time"
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil:
		return fmt.Sprintf("the server %s cannot be reached: %s", op.Addr, lastOf(op))
	case errors.Is(err, object.ErrIdle):
		return "nothing came from the server for too long"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection to the server was cut"
	case errors.Is(err, object.ErrCorrupt):
		return "the server's answer cannot be read: it is not what the API promises"
	}
	return "the connection to the server failed: " + lastOf(err)
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
