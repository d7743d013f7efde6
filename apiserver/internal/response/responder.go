package response

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/apiserver/internal/table"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Responder sends responses. It is stateless.
type Responder struct {
	codecs   *codec.Codecs
	logger   *slog.Logger
	answered func(*http.Request) // called after each error
}

// New returns a responder. answered is called after each error.
func New(codecs *codec.Codecs, logger *slog.Logger, answered func(*http.Request)) *Responder {
	return &Responder{codecs, logger, answered}
}

// Object encodes and sends an object.
func (s *Responder) Object(w http.ResponseWriter, req *http.Request, rep codec.Representation, code int, obj runtime.Object) {
	w.Header().Set("Content-Type", rep.ContentType(s.codecs, false))
	out := newCompressor(w, req, code)
	err := s.codecs.Encoder(rep).Encode(obj, out)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		s.logger.Debug("sending response failed", "path", req.URL.Path, "error", err)
	}
}

// Raw sends encoded bytes.
func (s *Responder) Raw(w http.ResponseWriter, req *http.Request, contentType string, code int, raw []byte) {
	w.Header().Set("Content-Type", contentType)
	out := newCompressor(w, req, code)
	if _, err := out.Write(raw); err == nil {
		_ = out.Close() // fails only if the client disconnected
	}
}

// Error sends an error as a Status.
func (s *Responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	defer s.answered(req)
	status := StatusOf(err)
	rep, bad := codec.Negotiate(req, func(r codec.Representation) bool { return r.As == "" })
	if bad != nil {
		rep = codec.Representation{}
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	s.Object(w, req, rep, int(status.Code), status)
}

// Record responds with one object in the negotiated representation.
func (s *Responder) Record(w http.ResponseWriter, r *request.Request, code int, rec *kinds.Record) error {
	if r.Rep.As == "" && !r.Rep.Pretty {
		raw, err := s.codecs.Record(r.Kind, r.Rep.Encoding, rec)
		if err != nil {
			return err
		}
		s.Raw(w, r.Request, r.Rep.ContentType(s.codecs, false), code, raw)
		return nil
	}
	obj := r.Kind.Present(rec)
	switch r.Rep.As {
	case "Table":
		obj = s.Table(r, storage.Page{Records: []*kinds.Record{rec}, Version: rec.Version}, true)
	case "PartialObjectMetadata":
		obj = codec.Partial(rec, r.Rep.In)
	case "":
	default:
		return CannotConvert(r.Rep.As, obj, false)
	}
	s.Object(w, r.Request, r.Rep, code, obj)
	return nil
}

// Deleted responds to a deletion with a Status.
func (s *Responder) Deleted(w http.ResponseWriter, r *request.Request, rec *kinds.Record) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Group: r.Kind.Group, Kind: r.Kind.Resource.Resource, Name: r.Name},
	}
	if rec != nil {
		status.Details.UID = rec.Meta.GetUID()
	}
	rep := r.Rep
	rep.As = ""
	s.Object(w, r.Request, rep, http.StatusOK, status)
}

// Created responds with 201 and a Status.
func (s *Responder) Created(w http.ResponseWriter, r *request.Request) {
	s.Object(w, r.Request, codec.Representation{Encoding: r.Rep.Encoding}, http.StatusCreated,
		&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// PageNotFound responds to a path outside of the API. Like the real server, it sends no
// Status.
func (s *Responder) PageNotFound(w http.ResponseWriter, req *http.Request) {
	defer s.answered(req)
	s.Raw(w, req, "text/plain; charset=utf-8", http.StatusNotFound, []byte("404 page not found\n"))
}

// JSON responds with a value that is not an API object.
func (s *Responder) JSON(w http.ResponseWriter, req *http.Request, v any) {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.Error(w, req, err)
		return
	}
	s.Raw(w, req, "application/json", http.StatusOK, append(raw, '\n'))
}

// Table renders a page for a request.
func (s *Responder) Table(r *request.Request, p storage.Page, columns bool) *metav1.Table {
	return table.New(s.codecs, r.Kind, r.Rep.In, metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject")), p, columns)
}

// CannotConvert is the error for an object that does not have the requested form.
func CannotConvert(as string, obj runtime.Object, list bool) error {
	is := "not a list"
	if list {
		is = "a list"
	}
	return apierror.NotAcceptable(fmt.Sprintf("you requested %s, but the requested object is %s (%T)", as, is, obj))
}

// StatusOf converts an error to an API Status.
func StatusOf(err error) *metav1.Status {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "Internal error occurred: " + err.Error(),
	}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		status = api.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}
