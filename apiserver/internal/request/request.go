package request

import (
	"mime"
	"net/http"
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
	"k8s.io/apimachinery/pkg/types"
)

// Request is a parsed request for a resource.
type Request struct {
	*http.Request
	Kind        *kinds.Kind
	Verb        string
	Namespace   string
	Name        string
	Subresource string
	Rep         codec.Representation
}

// Key returns the namespace and name in the path.
func (r *Request) Key() object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

// DryRun reports whether dryRun is set. Its value has been validated before.
func (r *Request) DryRun() bool { return len(r.URL.Query()["dryRun"]) > 0 }

// Manager returns the field manager.
func (r *Request) Manager() string {
	if m := r.URL.Query().Get("fieldManager"); m != "" {
		return m
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	if agent == "" {
		agent = "unknown"
	}
	return agent[:min(len(agent), 128)]
}

// Parse parses the path of a resource request.
func Parse(req *http.Request, catalog *kinds.Catalog) (*Request, error) {
	path, ok := access.SplitPath(req.URL.Path)
	parts := path.Parts
	if !ok || len(parts) > 3 || slices.Contains(parts, "") {
		return nil, apierror.NotServed()
	}
	r := &Request{Request: req, Namespace: path.Namespace}
	var err error
	if r.Kind, err = catalog.Get(path.GV.WithResource(parts[0])); err != nil {
		return nil, err
	}
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	if r.Namespace != "" && !r.Kind.Namespaced || r.Kind.Namespaced && r.Namespace == "" && r.Name != "" {
		return nil, apierror.NotServed()
	}
	if r.Verb = path.Verb(req); !r.allowsVerb() {
		return nil, apierror.NotAllowed()
	}
	if r.Subresource == "" && !slices.Contains(r.Kind.Verbs(), r.Verb) {
		return nil, apierror.NotAllowed()
	}
	if r.Rep, err = codec.Negotiate(req, func(rep codec.Representation) bool { return codec.Supports(r.Kind, rep) }); err != nil {
		return nil, err
	}
	return r, r.checkTable()
}

// allowsVerb reports whether the path supports the verb.
func (r *Request) allowsVerb() bool {
	everywhere := r.Kind.Namespaced && r.Namespace == ""
	switch r.Verb {
	case "get", "list":
		return r.Method == http.MethodGet
	case "watch":
		return r.Method == http.MethodGet && r.Subresource == ""
	case "create":
		return !everywhere && (r.Name == "" || r.Subresource != "")
	case "update", "patch":
		return r.Name != ""
	case "delete":
		return r.Subresource == ""
	case "deletecollection":
		return !everywhere
	}
	return false
}

// ListFeatures are the features of lists and watches that an early server lacks.
type ListFeatures struct{ Streaming, Sharding bool }

// ListOptions parses the query and selectors of a list or watch.
func (r *Request) ListOptions(f ListFeatures) (*internalversion.ListOptions, storage.Selection, error) {
	query := r.URL.Query()
	var v1 metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &v1, nil); err != nil {
		return nil, storage.Selection{}, apierrors.NewBadRequest(err.Error())
	}
	opts := &internalversion.ListOptions{
		Watch: r.Verb == "watch", AllowWatchBookmarks: v1.AllowWatchBookmarks, ResourceVersion: v1.ResourceVersion,
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
	if errs := validation.ValidateListOptions(opts, f.Streaming); len(errs) > 0 {
		return nil, storage.Selection{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	sel, err := storage.NewSelection(r.Kind, r.Namespace, r.Name, opts.LabelSelector, opts.FieldSelector)
	if err == nil && v1.ShardSelector != "" && f.Sharding {
		sel.Shard, err = storage.ParseShard(v1.ShardSelector)
	}
	return opts, sel, err
}

// ReadPatch reads a patch and checks that the kind supports its type.
func (r *Request) ReadPatch() ([]byte, types.PatchType, error) {
	raw, err := ReadBody(r.Request)
	if err != nil {
		return nil, "", err
	}
	patchType := r.patchType()
	switch patchType {
	case types.ApplyYAMLPatchType, types.JSONPatchType, types.MergePatchType:
	case types.StrategicMergePatchType:
		if !r.Kind.Typed {
			return nil, "", apierror.NotSupported(types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType)
		}
	default:
		return nil, "", apierror.NotSupported()
	}
	return raw, patchType, r.CheckOptions(patchType)
}

func (r *Request) patchType() types.PatchType {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return types.PatchType(media)
}

// Updater returns the field manager of an update or patch. It is empty for an apply, which
// updates the managed fields itself.
func (r *Request) Updater() string {
	if r.Verb == "patch" && r.patchType() == types.ApplyYAMLPatchType {
		return ""
	}
	return r.Manager()
}

// Force reports whether an apply takes fields from other managers.
func (r *Request) Force() bool { return r.URL.Query().Get("force") == "true" }
