package registry

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
)

// ServeSubresource serves a request for a subresource.
func (s *Registry) ServeSubresource(w http.ResponseWriter, r *request.Request) error {
	switch {
	case r.Subresource == "status" && r.Kind.Status || kinds.ObjectSubresources[r.Kind.String()][r.Subresource]:
		switch {
		case r.Verb == "update":
			return s.ServeUpdate(w, r)
		case r.Subresource == "finalize": // can only be updated
		case r.Verb == "get":
			return s.ServeGet(w, r)
		case r.Verb == "patch":
			return s.ServePatch(w, r)
		}
	case r.Subresource == "scale" && r.Kind.Scale != nil:
		return s.serveScale(w, r)
	case r.Kind.String() == "serviceaccounts" && r.Subresource == "token" && r.Verb == "create":
		return s.serveToken(w, r)
	case r.Kind.String() == "pods" && (r.Subresource == "eviction" || r.Subresource == "binding"):
		switch {
		case r.Verb != "create": // not allowed
		case r.Subresource == "eviction":
			return s.serveEviction(w, r)
		default:
			return s.serveBinding(w, r)
		}
	case !r.Kind.Typed:
		return kinds.NotFound(r.Kind, r.Name)
	default:
		return apierror.NotServed()
	}
	return apierror.NotAllowed()
}
