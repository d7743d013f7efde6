package apiserver

import (
	"net/http"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/apiserver/internal/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServeHTTP serves one request. A caller that uses the server as a handler of its own,
// without [Server.Run], must check the Host header itself.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-cache, private")
	s.opts.Logger.Debug("request", "method", req.Method, "uri", req.URL.RequestURI())
	if err := checkOrigin(req); err != nil {
		s.respondError(w, req, err)
		return
	}
	req, err := s.access.Identify(req)
	if err != nil {
		s.respondError(w, req, err)
		return
	}
	path := strings.Trim(req.URL.Path, "/")
	switch first, rest, _ := strings.Cut(path, "/"); {
	case first == "healthz" || first == "livez" || first == "readyz":
		s.respondRaw(w, req, "text/plain; charset=utf-8", http.StatusOK, []byte("ok"))
	case path == "version":
		s.serveVersion(w, req)
	case first == "openapi":
		s.serveOpenAPI(w, req, rest)
	case first == "tarn" && s.opts.Admin:
		s.serveAdmin(w, req, rest)
	case first == "api" || first == "apis":
		group, more, _ := strings.Cut(rest, "/")
		version, _, _ := strings.Cut(more, "/")
		if first == "apis" && group != "" && !s.catalog.Has(group, version) {
			s.pageNotFound(w, req)
			return
		}
		if s.serveDiscovery(w, req, path) {
			s.requests.answered(req)
			return
		}
		s.serveResource(w, req)
	case path == "":
		s.serveRoot(w, req)
	default:
		s.pageNotFound(w, req)
	}
}

// serveResource serves a resource request and injects faults.
func (s *Server) serveResource(w http.ResponseWriter, req *http.Request) {
	r, err := s.parseRequest(req)
	if err != nil {
		s.respondError(w, req, err)
		return
	}
	if r.kind.Deprecated != "" {
		addWarning(w, r.kind.Deprecated)
	}
	faults := s.faults.pick(r.target())
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
		s.respondError(w, req, err)
	}
}

// serve dispatches on the verb. It returns an error only if nothing has been sent.
func (s *Server) serve(w http.ResponseWriter, r *request, faults requestFaults) error {
	if r.subresource != "" {
		return s.serveSubresource(w, r)
	}
	switch r.verb {
	case "get":
		return s.serveGet(w, r)
	case "list":
		return s.serveList(w, r, faults)
	case "watch":
		return s.serveWatch(w, r, faults)
	case "create":
		return s.serveCreate(w, r)
	case "update":
		return s.serveUpdate(w, r)
	case "patch":
		return s.servePatch(w, r)
	case "delete":
		return s.serveDelete(w, r)
	case "deletecollection":
		return s.serveDeleteCollection(w, r)
	}
	return apierror.NotAllowed()
}

// send responds with one object in the negotiated representation.
func (s *Server) send(w http.ResponseWriter, r *request, code int, rec *kinds.Record) error {
	if r.rep.As == "" && !r.rep.Pretty {
		raw, err := s.codecs.Record(r.kind, r.rep.Encoding, rec)
		if err != nil {
			return err
		}
		s.respondRaw(w, r.Request, r.rep.ContentType(s.codecs, false), code, raw)
		return nil
	}
	obj := r.kind.Present(rec)
	switch r.rep.As {
	case "Table":
		obj = s.table(r, storage.Page{Records: []*kinds.Record{rec}, Version: rec.Version}, true)
	case "PartialObjectMetadata":
		obj = codec.Partial(rec, r.rep.In)
	case "":
	default:
		return cannotConvert(r.rep.As, obj, false)
	}
	s.respond(w, r.Request, r.rep, code, obj)
	return nil
}

func (s *Server) serveGet(w http.ResponseWriter, r *request) error {
	if version, err := storage.ParseVersion(r.URL.Query().Get("resourceVersion")); err != nil {
		return err
	} else if version > 0 {
		if err := s.storage.Await(r.Context(), version); err != nil {
			return err
		}
	}
	rec := s.storage.Get(r.kind, r.key())
	if rec == nil {
		return kinds.NotFound(r.kind, r.name)
	}
	return s.send(w, r, http.StatusOK, rec)
}

func (s *Server) serveList(w http.ResponseWriter, r *request, faults requestFaults) error {
	opts, sel, err := s.listOptions(r, r.URL.Query())
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
	} else if p, err = s.storage.List(r.Context(), r.kind, sel, opts); err != nil {
		return err
	}
	switch r.rep.As {
	case "Table":
		s.respond(w, r.Request, r.rep, http.StatusOK, s.table(r, p, true))
	case "PartialObjectMetadataList":
		s.respond(w, r.Request, r.rep, http.StatusOK, codec.PartialList(p, r.rep.In))
	case "":
		list, err := codec.ListOf(r.kind, p)
		if err != nil {
			return err
		}
		s.respond(w, r.Request, r.rep, http.StatusOK, list)
	default:
		list, err := codec.ListOf(r.kind, p)
		if err != nil {
			return err
		}
		return cannotConvert(r.rep.As, list, true)
	}
	return nil
}

// respondDeleted responds to a deletion with a Status.
func (s *Server) respondDeleted(w http.ResponseWriter, r *request, rec *kinds.Record) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Group: r.kind.Group, Kind: r.kind.Resource.Resource, Name: r.name},
	}
	if rec != nil {
		status.Details.UID = rec.Meta.GetUID()
	}
	rep := r.rep
	rep.As = ""
	s.respond(w, r.Request, rep, http.StatusOK, status)
}

// table renders a page for a request.
func (s *Server) table(r *request, p storage.Page, columns bool) *metav1.Table {
	return table.New(s.codecs, r.kind, r.rep.In, metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject")), p, columns)
}
