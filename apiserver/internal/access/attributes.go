package access

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Attributes is what a request does, as far as RBAC rules see it.
type Attributes struct {
	Verb, Group, Resource, subresource, namespace, Name string
	Path                                                string // of a request outside of the API; resource is "" then
}

// AttributesOf returns the attributes of a request, whether its resource is served or not.
func AttributesOf(req *http.Request) Attributes {
	path, ok := SplitPath(req.URL.Path)
	if !ok {
		return Attributes{Verb: strings.ToLower(req.Method), Path: req.URL.Path}
	}
	a := Attributes{Group: path.GV.Group, namespace: path.Namespace, Resource: path.Parts[0]}
	if len(path.Parts) > 1 {
		a.Name = path.Parts[1]
	}
	if a.Resource == "namespaces" && path.Namespace == "" {
		a.namespace = a.Name // roles in a namespace apply to the namespace itself
	}
	if len(path.Parts) > 2 {
		a.subresource = path.Parts[2]
	}
	if a.Verb = path.Verb(req); path.Watch {
		a.subresource = ""
	}
	if a.Name == "" && (a.Verb == "list" || a.Verb == "watch" || a.Verb == "deletecollection") {
		if sel, err := fields.ParseSelector(req.URL.Query().Get("fieldSelector")); err == nil {
			a.Name, _ = sel.RequiresExactMatch("metadata.name")
		}
	}
	return a
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
