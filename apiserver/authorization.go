package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// attributes is what a request does, as far as RBAC rules see it.
type attributes struct {
	verb, group, resource, subresource, namespace, name string
	path                                                string // of a request outside of the API; resource is "" then
}

// attributesOf returns the attributes of a request, whether its resource is served or not.
func attributesOf(req *http.Request) attributes {
	path, ok := splitPath(req.URL.Path)
	if !ok {
		return attributes{verb: strings.ToLower(req.Method), path: req.URL.Path}
	}
	a := attributes{group: path.gv.Group, namespace: path.namespace, resource: path.parts[0]}
	if len(path.parts) > 1 {
		a.name = path.parts[1]
	}
	if a.resource == "namespaces" && path.namespace == "" {
		a.namespace = a.name // roles in a namespace apply to the namespace itself
	}
	if len(path.parts) > 2 {
		a.subresource = path.parts[2]
	}
	a.verb = map[string]string{
		http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[req.Method]
	switch {
	case path.watch:
		a.verb, a.subresource = "watch", ""
	case a.name == "" && a.verb == "delete":
		a.verb = "deletecollection"
	case a.name == "" && a.verb == "get":
		a.verb = "list"
		if watches(req) {
			a.verb = "watch"
		}
	}
	if a.name == "" && (a.verb == "list" || a.verb == "watch" || a.verb == "deletecollection") {
		if sel, err := fields.ParseSelector(req.URL.Query().Get("fieldSelector")); err == nil {
			a.name, _ = sel.RequiresExactMatch("metadata.name")
		}
	}
	return a
}

// ofReview returns the attributes that an access review asks about.
func ofReview(r *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) attributes {
	if r == nil {
		return attributes{verb: other.Verb, path: other.Path}
	}
	return attributes{verb: r.Verb, group: r.Group, resource: r.Resource, subresource: r.Subresource, namespace: r.Namespace, name: r.Name}
}

// combined returns the resource and subresource as in a rule.
func (a attributes) combined() string {
	if a.subresource == "" {
		return a.resource
	}
	return a.resource + "/" + a.subresource
}

// String returns the attributes in the words of a denial.
func (a attributes) String() string {
	if a.resource == "" {
		return fmt.Sprintf("%s path %q", a.verb, a.path)
	}
	text := fmt.Sprintf("%s resource %q in API group %q", a.verb, a.combined(), a.group)
	if a.namespace == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", a.namespace)
}

// unHTML prevents that an error looks like a page.
var unHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// authorize returns an error, and records the denial, if a user may not do something.
func (s *Server) authorize(u *user, a attributes) error {
	ok, reason := s.allowed(u, a)
	if ok {
		return nil
	}
	return s.deny(u, a, reason)
}

// deny records that a user may not do something and returns the error for it.
func (s *Server) deny(u *user, a attributes, reason string) error {
	text := unHTML.Replace(fmt.Sprintf("User %q cannot %v", u.Username, a))
	s.denials.add(text)
	s.requests.denied(u, a)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.group, Resource: a.resource}, a.name, fmt.Errorf("%s", text))
}

// allowed reports whether a user may do something, and which binding allows it or why the
// rules could not be resolved.
func (s *Server) allowed(u *user, a attributes) (ok bool, reason string) {
	if !s.opts.RBAC || slices.Contains(u.Groups, masters) {
		return true, ""
	}
	return s.rbac.allowed(s.storage, u, a)
}

// maxDenials is how many denials a server remembers.
const maxDenials = 1000

// denials holds the last distinct denials.
type denials struct {
	mu   sync.Mutex // guards the rest
	all  []string
	seen map[string]bool
}

func (d *denials) add(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	if d.seen[text] {
		return
	}
	if len(d.all) == maxDenials {
		delete(d.seen, d.all[0])
		d.all = slices.Delete(d.all, 0, 1)
	}
	d.seen[text] = true
	d.all = append(d.all, text)
}

// EvaluatesRBAC reports whether requests need permissions: [Options.RBAC] was set.
func (s *Server) EvaluatesRBAC() bool { return s.opts.RBAC }

// Denied returns what clients were not permitted to do, each once, in the order of the first
// attempts. A line is the message of the response without the object's name:
//
//	User "system:serviceaccount:shop:operator" cannot patch resource "deployments" in API group "apps" in the namespace "shop"
//
// or, for a role or binding with permissions that its author does not have, what is missing. Only a server
// with [Options.RBAC] denies requests. It remembers the last 1,000 denials.
func (s *Server) Denied() []string {
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	return slices.Clone(s.denials.all)
}

// denied adds a request that was not permitted to the log.
func (l *requestLog) denied(u *user, a attributes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(&loggedRequest{at: time.Now(), client: u.Username, what: a, result: fmt.Sprint(http.StatusForbidden)})
}
