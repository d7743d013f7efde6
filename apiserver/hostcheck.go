package apiserver

import (
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/memory"
	"github.com/tarnproject/tarn/internal/hostcheck"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The server authenticates no client, so a web page open in a browser on this machine must
// not be able to reach it, neither through a DNS name that resolves to this machine
// (checkHost) nor through a cross-origin request (checkOrigin).

// checkHost rejects requests whose Host header is not a name of this machine. In-memory
// connections come from the same process and may use any Host.
func (s *Server) checkHost(req *http.Request) error {
	if _, memory := req.Context().Value(http.LocalAddrContextKey).(memory.Addr); memory || hostcheck.Trusted(req.Host, s.hosts) {
		return nil
	}
	return notAdmitted(fmt.Sprintf("host %q is not allowed; add it to Options.AllowedHosts", req.Host))
}

// checkOrigin rejects cross-origin writes sent by a browser. Other clients send neither
// Origin nor Sec-Fetch-Site.
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
