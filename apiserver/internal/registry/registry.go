package registry

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/ownership"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/response"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	corev1 "k8s.io/api/core/v1"
)

// Registry reads and writes objects as kube-apiserver does: with defaults, validation, admission, managed
// fields and conflicts, and with what its controllers do after a write. All methods may be called from any
// goroutine.
type Registry struct {
	Parts
	definitions, namespaces *kinds.Kind
}

// Parts are the options and parts of a server that its registry needs. The options are those of the
// server.
type Parts struct {
	Schemas                                                             kinds.Schemas
	Strict, CollectGarbage, KeepNamespaces, NoControllers, AnyNamespace bool

	Storage   *storage.Storage
	Catalog   *kinds.Catalog
	Codecs    *codec.Codecs
	Ownership *ownership.Ownership
	Access    *access.Control
	Webhooks  *admission.Webhooks
	Out       *response.Responder
	Names     *Names
	Features  request.ListFeatures
	// Pace is called before an object is created.
	Pace func(req *http.Request, name string)
}

// New returns the registry of a server whose catalog has the built-in kinds.
func New(parts Parts) (s *Registry, err error) {
	s = &Registry{Parts: parts}
	if s.definitions, err = s.Catalog.Get(kinds.Definitions); err != nil {
		return nil, err
	}
	s.namespaces, err = s.Catalog.Get(corev1.SchemeGroupVersion.WithResource("namespaces"))
	return s, err
}
