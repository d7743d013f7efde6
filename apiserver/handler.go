package apiserver

import (
	"net/http"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/response"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServeHTTP serves one request. A caller that uses the server as a handler of its own,
// without [Server.Run], must check the Host header itself.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-cache, private")
	s.opts.Logger.Debug("request", "method", req.Method, "uri", req.URL.RequestURI())
	if err := checkOrigin(req); err != nil {
		s.out.Error(w, req, err)
		return
	}
	req, err := s.access.Identify(req)
	if err != nil {
		s.out.Error(w, req, err)
		return
	}
	path := strings.Trim(req.URL.Path, "/")
	switch first, rest, _ := strings.Cut(path, "/"); {
	case first == "healthz" || first == "livez" || first == "readyz":
		s.out.Raw(w, req, "text/plain; charset=utf-8", http.StatusOK, []byte("ok"))
	case path == "version":
		s.discovery.ServeVersion(w, req)
	case first == "openapi":
		s.discovery.ServeOpenAPI(w, req, rest)
	case first == "tarn" && s.opts.Admin:
		s.serveAdmin(w, req, rest)
	case first == "api" || first == "apis":
		group, more, _ := strings.Cut(rest, "/")
		version, _, _ := strings.Cut(more, "/")
		if first == "apis" && group != "" && !s.catalog.Has(group, version) {
			s.out.PageNotFound(w, req)
			return
		}
		if s.discovery.ServeGroups(w, req, path) {
			s.requests.answered(req)
			return
		}
		s.serveResource(w, req)
	case path == "":
		s.discovery.ServeRoot(w, req)
	default:
		s.out.PageNotFound(w, req)
	}
}

// serveResource serves a resource request and injects faults.
func (s *Server) serveResource(w http.ResponseWriter, req *http.Request) {
	r, err := request.Parse(req, s.catalog)
	if err != nil {
		s.out.Error(w, req, err)
		return
	}
	if r.Kind.Deprecated != "" {
		request.AddWarning(w, r.Kind.Deprecated)
	}
	faults := s.faults.pick(targetOf(r))
	if p := processOf(req); p != nil && p.plan != nil {
		release := p.planned(r, &faults)
		defer release()
	}
	end := s.requests.begin(r, &w)
	defer func() { end(faults) }()
	w, done := s.injectFaults(w, r, faults)
	if done {
		return
	}
	if err := s.serve(w, r, faults); err != nil {
		if req.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client or the server is closing
		}
		s.out.Error(w, req, err)
	}
}

// serve dispatches on the verb. It returns an error only if nothing has been sent.
func (s *Server) serve(w http.ResponseWriter, r *request.Request, faults requestFaults) error {
	if r.Subresource != "" {
		return s.registry.ServeSubresource(w, r)
	}
	switch r.Verb {
	case "get":
		return s.registry.ServeGet(w, r)
	case "list":
		return s.serveList(w, r, faults)
	case "watch":
		return s.serveWatch(w, r, faults)
	case "create":
		return s.registry.ServeCreate(w, r)
	case "update":
		return s.registry.ServeUpdate(w, r)
	case "patch":
		return s.registry.ServePatch(w, r)
	case "delete":
		return s.registry.ServeDelete(w, r)
	case "deletecollection":
		return s.registry.ServeDeleteCollection(w, r)
	}
	return apierror.NotAllowed()
}

func (s *Server) serveList(w http.ResponseWriter, r *request.Request, faults requestFaults) error {
	opts, sel, err := r.ListOptions(s.features)
	if err != nil {
		return err
	}
	if f, ok := faults[StaleCache]; ok {
		opts.ResourceVersion, opts.ResourceVersionMatch = kinds.FormatVersion(s.storage.Ago(f.Wait)), metav1.ResourceVersionMatchExact
		opts.Limit = 0 // as at version "0"
	}
	var p storage.Page
	if faults.has(EmptyPage) && opts.Continue == "" && opts.Limit > 0 {
		// EmptyPage: no items, but a continue token.
		v := s.storage.Now()
		p = storage.Page{Version: v, Next: storage.Token{Version: int64(v), Rewinds: s.storage.History()}.String()}
	} else if p, err = s.storage.List(r.Context(), r.Kind, sel, opts); err != nil {
		return err
	}
	switch r.Rep.As {
	case "Table":
		s.out.Object(w, r.Request, r.Rep, http.StatusOK, s.out.Table(r, p, true))
	case "PartialObjectMetadataList":
		s.out.Object(w, r.Request, r.Rep, http.StatusOK, codec.PartialList(p, r.Rep.In))
	case "":
		list, err := codec.ListOf(r.Kind, p)
		if err != nil {
			return err
		}
		s.out.Object(w, r.Request, r.Rep, http.StatusOK, list)
	default:
		list, err := codec.ListOf(r.Kind, p)
		if err != nil {
			return err
		}
		return response.CannotConvert(r.Rep.As, list, true)
	}
	return nil
}
