package apiserver

import (
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// objectSubresources lists the subresources that are read and written as the whole object,
// besides status.
var objectSubresources = map[string]map[string]bool{
	"pods":       stringSet("ephemeralcontainers resize"),
	"namespaces": stringSet("finalize"),
	"certificatesigningrequests.certificates.k8s.io": stringSet("approval"),
}

// The kinds of the objects of other subresources. They are not in the catalog.
var (
	scaleKind    = subresourceKind(autoscalingv1.SchemeGroupVersion, "Scale")
	bindingKind  = subresourceKind(corev1.SchemeGroupVersion, "Binding")
	evictionKind = subresourceKind(policyv1.SchemeGroupVersion, "Eviction")
	tokenKind    = subresourceKind(authenticationv1.SchemeGroupVersion, "TokenRequest")
)

func subresourceKind(gv schema.GroupVersion, name string) *kind {
	k := &kind{Resource: object.Resource{Group: gv.Group, Version: gv.Version, Resource: strings.ToLower(name) + "s", Kind: name, Namespaced: true}, typed: true}
	k.storage = k
	return k
}

// serveSubresource serves a request for a subresource.
func (s *Server) serveSubresource(w http.ResponseWriter, r *request) error {
	switch {
	case r.subresource == "status" && r.kind.status || objectSubresources[r.kind.String()][r.subresource]:
		switch {
		case r.verb == "update":
			return s.serveUpdate(w, r)
		case r.subresource == "finalize": // can only be updated
		case r.verb == "get":
			return s.serveGet(w, r)
		case r.verb == "patch":
			return s.servePatch(w, r)
		}
	case r.subresource == "scale" && r.kind.scale != nil:
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
	case !r.kind.typed:
		return notFound(r.kind, r.name)
	default:
		return notServed()
	}
	return notAllowed()
}

// respondCreated responds with 201 and a Status.
func (s *Server) respondCreated(w http.ResponseWriter, r *request) {
	s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusCreated,
		&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}
