package apiserver

import (
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// objectSubresources lists the subresources that are read and written as the whole object,
// besides status.
var objectSubresources = map[string]map[string]bool{
	"pods":       stringSet("ephemeralcontainers resize"),
	"namespaces": stringSet("finalize"),
	"certificatesigningrequests.certificates.k8s.io": stringSet("approval"),
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

// serveReview allows everything, since the server does not authorize requests.
func (s *Server) serveReview(w http.ResponseWriter, r *request, obj runtime.Object) error {
	user := "system:anonymous"
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token != "" {
		user = "system:authenticated"
	}
	switch o := obj.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status.Allowed = true
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = true
	case *authorizationv1.LocalSubjectAccessReview:
		o.Status.Allowed = true
	case *authorizationv1.SelfSubjectRulesReview:
		o.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
		o.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	case *authenticationv1.SelfSubjectReview:
		o.Status.UserInfo.Username = user
	case *authenticationv1.TokenReview:
		o.Status.Authenticated = true
		o.Status.User.Username = "system:authenticated"
	}
	s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusCreated, obj)
	return nil
}
