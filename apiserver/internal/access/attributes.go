package access

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Attributes is what a request does, as far as RBAC rules see it.
type Attributes struct {
	Verb, Group, Resource, subresource, namespace, Name string
	Path                                                string // of a request outside of the API; resource is "" then
}

// paths parses paths as kube-apiserver does.
var paths = apirequest.RequestInfoFactory{
	APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
}

// InfoOf parses the path and the verb of a request.
func InfoOf(req *http.Request) *apirequest.RequestInfo {
	info, err := paths.NewRequestInfo(req)
	info.IsResourceRequest = info.IsResourceRequest && err == nil // the deprecated path /watch may lack a resource
	return info
}

// AttributesOf returns the attributes of a request, whether its resource is served or not.
func AttributesOf(req *http.Request) Attributes {
	info := InfoOf(req)
	if !info.IsResourceRequest {
		return Attributes{Verb: strings.ToLower(req.Method), Path: info.Path}
	}
	return Attributes{Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, subresource: info.Subresource, namespace: info.Namespace, Name: info.Name}
}

// ofReview returns the attributes that an access review asks about.
func ofReview(r *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) Attributes {
	if r == nil {
		return Attributes{Verb: other.Verb, Path: other.Path}
	}
	return Attributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, subresource: r.Subresource, namespace: r.Namespace, Name: r.Name}
}

// combined returns the resource and subresource as in a rule.
func (a Attributes) combined() string {
	if a.subresource == "" {
		return a.Resource
	}
	return a.Resource + "/" + a.subresource
}

// String returns the attributes in the words of a denial.
func (a Attributes) String() string {
	if a.Resource == "" {
		return fmt.Sprintf("%s path %q", a.Verb, a.Path)
	}
	text := fmt.Sprintf("%s resource %q in API group %q", a.Verb, a.combined(), a.Group)
	if a.namespace == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", a.namespace)
}

// allowedBy reports whether a rule allows a request.
func (a Attributes) allowedBy(rule rbacv1.PolicyRule) bool {
	if !Either(rule.Verbs, "*", a.Verb) {
		return false
	}
	if a.Resource == "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			prefix, open := strings.CutSuffix(url, "*")
			return url == a.Path || open && strings.HasPrefix(a.Path, prefix)
		})
	}
	return Either(rule.APIGroups, "*", a.Group) &&
		(Either(rule.Resources, "*", a.combined()) || a.subresource != "" && slices.Contains(rule.Resources, "*/"+a.subresource)) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

// Either reports whether a list has one of two texts.
func Either(list []string, a, b string) bool {
	return slices.Contains(list, a) || slices.Contains(list, b)
}
