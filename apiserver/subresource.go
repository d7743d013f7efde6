package apiserver

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveSubresource serves a request for a subresource.
func (s *Server) serveSubresource(w http.ResponseWriter, r *request) error {
	switch {
	case r.subresource == "status" && r.kind.Status || kinds.ObjectSubresources[r.kind.String()][r.subresource]:
		switch {
		case r.verb == "update":
			return s.serveUpdate(w, r)
		case r.subresource == "finalize": // can only be updated
		case r.verb == "get":
			return s.serveGet(w, r)
		case r.verb == "patch":
			return s.servePatch(w, r)
		}
	case r.subresource == "scale" && r.kind.Scale != nil:
		return s.serveScale(w, r)
	case r.kind.String() == "serviceaccounts" && r.subresource == "token" && r.verb == "create":
		return s.serveToken(w, r)
	case r.kind.String() == "pods" && (r.subresource == "eviction" || r.subresource == "binding"):
		switch {
		case r.verb != "create": // not allowed
		case r.subresource == "eviction":
			return s.serveEviction(w, r)
		default:
			return s.serveBinding(w, r)
		}
	case !r.kind.Typed:
		return kinds.NotFound(r.kind, r.name)
	default:
		return apierror.NotServed()
	}
	return apierror.NotAllowed()
}

// respondCreated responds with 201 and a Status.
func (s *Server) respondCreated(w http.ResponseWriter, r *request) {
	s.respond(w, r.Request, codec.Representation{Encoding: r.rep.Encoding}, http.StatusCreated,
		&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}
