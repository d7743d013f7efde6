package access

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resourcePath is the path of a resource request.
type resourcePath struct {
	GV        schema.GroupVersion
	Watch     bool // the deprecated /watch path
	Namespace string
	Parts     []string // resource, name, subresource, at least the first
}

// SplitPath splits the path of a resource request. It returns ok=false for other paths.
func SplitPath(path string) (p resourcePath, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		p.GV.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		p.GV.Group, p.GV.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p, false
	}
	if parts[0] == "watch" {
		p.Watch, parts = true, parts[1:]
	}
	// /namespaces/x and its subresources address the namespace itself.
	if len(parts) >= 3 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		p.Namespace, parts = parts[1], parts[2:]
	}
	p.Parts = parts
	return p, len(parts) > 0
}

// watches reports whether the query of a list asks for a watch.
func watches(req *http.Request) bool {
	v := req.URL.Query().Get("watch")
	return v != "" && v != "0" && v != "false"
}

// verbs are those of methods for an object.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// Verb returns the verb of a request, whether the resource supports it or not.
func (p resourcePath) Verb(req *http.Request) string {
	verb := verbs[req.Method]
	switch {
	case p.Watch || verb == "get" && !p.named() && watches(req):
		return "watch"
	case verb == "get" && !p.named():
		return "list"
	case verb == "delete" && !p.named():
		return "deletecollection"
	}
	return verb
}

// named reports whether the path has the name of an object.
func (p resourcePath) named() bool { return len(p.Parts) > 1 && p.Parts[1] != "" }
