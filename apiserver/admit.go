package apiserver

import (
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/internal/hostcheck"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The server authenticates no client, so that a web page in a browser of this machine
// must not get to it: neither by a host name of the page's own that resolves to this
// machine (checkHost) nor by a request from its own origin to this one (checkOrigin).

// checkHost refuses requests to the server's address by a name that is not this machine's.
// Connections in memory come from the same process and have any Host.
func (s *Server) checkHost(req *http.Request) error {
	if _, memory := req.Context().Value(http.LocalAddrContextKey).(memoryAddr); memory || hostcheck.Trusted(req.Host, s.hosts) {
		return nil
	}
	return notAdmitted(fmt.Sprintf("the Host %q is not a name of this machine; a server with this name in Options.AllowedHosts accepts it", req.Host))
}

// checkOrigin refuses requests that change something and that a browser sent for a page of
// another origin. Other clients send neither Origin nor Sec-Fetch-Site.
func checkOrigin(req *http.Request) error {
	var protection http.CrossOriginProtection
	if err := protection.Check(req); err != nil {
		return notAdmitted(err.Error())
	}
	return nil
}

func notAdmitted(message string) error {
	err := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	err.ErrStatus.Message = "forbidden: " + message
	return err
}
