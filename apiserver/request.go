package apiserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is a parsed request for a resource.
type request struct {
	*http.Request
	kind        *kinds.Kind
	verb        string
	namespace   string
	name        string
	subresource string
	watchPath   bool // uses the deprecated /watch path
	rep         codec.Representation
}

func (r *request) key() object.Key { return object.Key{Namespace: r.namespace, Name: r.name} }

// dryRun reports whether dryRun is set. Its value has been validated before.
func (r *request) dryRun() bool { return len(r.URL.Query()["dryRun"]) > 0 }

// manager returns the field manager.
func (r *request) manager() string {
	if m := r.URL.Query().Get("fieldManager"); m != "" {
		return m
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	if agent == "" {
		agent = "unknown"
	}
	return agent[:min(len(agent), 128)]
}

// parseRequest parses the path of a resource request.
func (s *Server) parseRequest(req *http.Request) (*request, error) {
	path, ok := access.SplitPath(req.URL.Path)
	parts := path.Parts
	if !ok || len(parts) > 3 || slices.Contains(parts, "") {
		return nil, apierror.NotServed()
	}
	r := &request{Request: req, namespace: path.Namespace, watchPath: path.Watch}
	var err error
	if r.kind, err = s.catalog.Get(path.GV.WithResource(parts[0])); err != nil {
		return nil, err
	}
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	if r.namespace != "" && !r.kind.Namespaced || r.kind.Namespaced && r.namespace == "" && r.name != "" {
		return nil, apierror.NotServed()
	}
	if r.verb, err = r.chooseVerb(); err != nil {
		return nil, err
	}
	if r.subresource == "" && !slices.Contains(r.kind.Verbs(), r.verb) {
		return nil, apierror.NotAllowed()
	}
	if r.rep, err = codec.Negotiate(req, func(rep codec.Representation) bool { return codec.Supports(r.kind, rep) }); err != nil {
		return nil, err
	}
	return r, r.checkTable()
}

func (r *request) chooseVerb() (string, error) {
	watch := r.watchPath || access.Watches(r.Request)
	if r.watchPath && r.Method != http.MethodGet {
		return "", apierror.NotAllowed()
	}
	switch r.Method {
	case http.MethodGet:
		switch {
		case watch && r.subresource == "" && (r.name == "" || r.watchPath):
			return "watch", nil
		case r.name == "":
			return "list", nil
		default:
			return "get", nil
		}
	case http.MethodPost:
		if r.kind.Namespaced && r.namespace == "" {
			break
		}
		if r.name == "" || r.subresource != "" {
			return "create", nil
		}
	case http.MethodPut:
		if r.name != "" {
			return "update", nil
		}
	case http.MethodPatch:
		if r.name != "" {
			return "patch", nil
		}
	case http.MethodDelete:
		switch {
		case r.subresource != "":
		case r.name != "":
			return "delete", nil
		case r.kind.Namespaced && r.namespace == "":
		default:
			return "deletecollection", nil
		}
	}
	return "", apierror.NotAllowed()
}

// listOptions parses the query and selectors of a list or watch.
func (s *Server) listOptions(r *request, query url.Values) (*internalversion.ListOptions, storage.Selection, error) {
	var v1 metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &v1, nil); err != nil {
		return nil, storage.Selection{}, apierrors.NewBadRequest(err.Error())
	}
	opts := &internalversion.ListOptions{
		Watch: r.verb == "watch", AllowWatchBookmarks: v1.AllowWatchBookmarks, ResourceVersion: v1.ResourceVersion,
		ResourceVersionMatch: v1.ResourceVersionMatch, TimeoutSeconds: v1.TimeoutSeconds, Limit: v1.Limit, Continue: v1.Continue,
		SendInitialEvents: v1.SendInitialEvents,
	}
	var err error
	if opts.LabelSelector, err = labels.Parse(v1.LabelSelector); err != nil {
		return nil, storage.Selection{}, apierrors.NewBadRequest(err.Error())
	}
	if opts.FieldSelector, err = fields.ParseSelector(v1.FieldSelector); err != nil {
		return nil, storage.Selection{}, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateListOptions(opts, !s.opts.NoStreamingLists); len(errs) > 0 {
		return nil, storage.Selection{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	sel, err := storage.NewSelection(r.kind, r.namespace, r.name, opts.LabelSelector, opts.FieldSelector)
	if err == nil && v1.ShardSelector != "" && !s.opts.NoSharding {
		sel.Shard, err = storage.ParseShard(v1.ShardSelector)
	}
	return opts, sel, err
}
