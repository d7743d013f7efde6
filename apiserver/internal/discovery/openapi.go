package discovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// served is the version of Kubernetes.
var served = fmt.Sprintf("v%d.%d", kinds.ServedMajor, kinds.ServedMinor)

// ServeVersion serves /version.
func (s *Discovery) ServeVersion(w http.ResponseWriter, req *http.Request) {
	s.out.JSON(w, req, version.Info{
		Major: strconv.Itoa(kinds.ServedMajor), Minor: strconv.Itoa(kinds.ServedMinor), GitVersion: served + ".0+tarn", GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// ServeRoot serves the list of paths.
func (s *Discovery) ServeRoot(w http.ResponseWriter, req *http.Request) {
	paths := []string{"/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
	for _, g := range s.groups() {
		for _, v := range g.Versions {
			if g.Name != "" {
				paths = append(paths, "/apis/"+v.GroupVersion)
			}
		}
	}
	s.out.JSON(w, req, map[string]any{"paths": paths})
}

// emptyOpenAPI2 is {swagger: "2.0", info: {title, version}} in protobuf, which kubectl
// requests.
const emptyOpenAPI2 = "\x0a\x032.0\x12\x0d\x0a\x04tarn\x12\x05v1.37"

// ServeOpenAPI serves OpenAPI v3 documents. They describe custom resources with a schema, and
// the types of built-in kinds. The operations of kinds without a schema declare only server-side
// field validation, so that kubectl does not validate on the client.
func (s *Discovery) ServeOpenAPI(w http.ResponseWriter, req *http.Request, path string) {
	info := map[string]any{"title": "tarn", "version": served}
	switch version, rest, _ := strings.Cut(path, "/"); {
	case path == "v2" && strings.Contains(req.Header.Get("Accept"), "protobuf"):
		s.out.Raw(w, req, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", http.StatusOK, []byte(emptyOpenAPI2))
	case path == "v2":
		s.out.JSON(w, req, map[string]any{"swagger": "2.0", "info": info, "paths": map[string]any{}, "definitions": map[string]any{}})
	case path == "v3":
		paths := map[string]any{}
		for _, k := range s.catalog.All() {
			at := strings.TrimPrefix(groupVersionPath(k.GVK().GroupVersion()), "/")
			paths[at] = map[string]any{"serverRelativeURL": "/openapi/v3/" + at}
		}
		s.out.JSON(w, req, map[string]any{"paths": paths})
	case version == "v3":
		var doc openAPI
		for _, k := range s.catalog.All() {
			if at := groupVersionPath(k.GVK().GroupVersion()); at == "/"+rest {
				if err := doc.add(k, at); err != nil {
					s.out.Error(w, req, apierrors.NewInternalError(err))
					return
				}
			}
		}
		if len(doc.Paths) == 0 {
			s.out.Error(w, req, apierror.NotServed())
			return
		}
		if doc.Info != nil {
			info = doc.Info
		}
		s.out.JSON(w, req, map[string]any{"openapi": "3.0.0", "info": info, "paths": doc.Paths, "components": map[string]any{"schemas": doc.Components.Schemas}})
	default:
		s.out.Error(w, req, apierror.NotServed())
	}
}

// openAPI is the part of an OpenAPI v3 document that is merged from those of its kinds.
type openAPI struct {
	Info       map[string]any
	Paths      map[string]any
	Components struct{ Schemas map[string]any }
}

// add adds a kind whose group version has the path at.
func (d *openAPI) add(k *kinds.Kind, at string) error {
	var more openAPI
	if k.Schema != nil {
		raw, err := k.Schema.OpenAPI()
		if err == nil && raw != nil {
			err = json.Unmarshal(raw, &more)
		}
		if err != nil {
			return err
		}
	}
	if k.Typed {
		more.Components.Schemas = builtin.OpenAPI(k.GVK(), k.Empty())
	}
	if len(more.Paths) == 0 {
		more.Paths = map[string]any{at + objectPath(k): operationsOf(k)}
	}
	if d.Paths == nil {
		d.Paths, d.Components.Schemas = map[string]any{}, map[string]any{}
	}
	if more.Info != nil {
		d.Info = more.Info
	}
	maps.Copy(d.Paths, more.Paths)
	maps.Copy(d.Components.Schemas, more.Components.Schemas)
	return nil
}

// groupVersionPath returns the path prefix of a group version.
func groupVersionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// objectPath returns the path template of an object, relative to its group version.
func objectPath(k *kinds.Kind) string {
	if k.Namespaced {
		return "/namespaces/{namespace}/" + k.Resource.Resource + "/{name}"
	}
	return "/" + k.Resource.Resource + "/{name}"
}

func operationsOf(k *kinds.Kind) map[string]any {
	gvk := map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	validated := []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]any{"type": "string", "uniqueItems": true}}}
	operation := func(action string) map[string]any {
		return map[string]any{
			"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "parameters": validated,
			"responses": map[string]any{"200": map[string]any{"description": "OK"}},
		}
	}
	return map[string]any{"put": operation("put"), "patch": operation("patch")}
}
