package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// Cluster is what the console shows; a *tarn.Cluster is one. All methods are called from several
// goroutines.
type Cluster interface {
	// Status returns the present status.
	Status() Status
	// MirrorNamed returns the mirror with that name in Status; nil if there is none.
	MirrorNamed(name string) Mirror
	// ControllerNamed returns the controller with that name in Status; nil if there is none.
	ControllerNamed(name string) Controller
}

// Mirror gives access to the objects of a mirror of any type. What it returns is shared with all
// readers of the mirror: the caller must not write to it.
type Mirror interface {
	// Name returns the mirror's name.
	Name() string
	// Resource returns the mirrored resource.
	Resource() object.Resource
	// Masked returns the fields that are hidden in addition to the data of Secrets.
	Masked() []object.FieldPath
	// Revision changes whenever an object does.
	Revision() uint64
	// Keys yields the keys of all objects, without order.
	Keys(yield func(object.Key) bool)
	// Find returns the keys of the objects that have a value in an index, as text. ok is false if
	// there is no such index.
	Find(index, value string) (keys []string, ok bool)
	// Get returns an object.
	Get(key object.Key) (obj controller.Object, ok bool)
	// History returns the versions of an object that are kept, oldest first.
	History(key object.Key) []Version
	// Relist lists the resource again because of cause. It does not wait.
	Relist(cause error)
}

// Version is a version of an object.
type Version struct {
	// At is when the mirror received it; zero if that is not known.
	At      time.Time
	Version string
	// Kind is the kind of the change that led to it, such as "updated". "first seen" is the state before
	// the first change that is kept.
	Kind string
	// JSON is the object; nil if it was deleted. It may contain secrets.
	JSON []byte
}

// Controller is a controller of the cluster; a *tarn.Controller is one.
type Controller interface {
	// Name returns the controller's name.
	Name() string
	// Status returns the present status.
	Status() controller.Status
	// Inspect returns what the controller knows of a key.
	Inspect(key object.Key) controller.KeyStatus
	// Pause lets no further reconcile start until Resume is called.
	Pause()
	// Resume ends a pause.
	Resume()
	// Retry reconciles a key as soon as possible.
	Retry(key object.Key) error
}

// HandlerOptions change what [Handler] serves, and to whom. The zero HandlerOptions serve what the zero
// [Guard] allows, and change nothing.
type HandlerOptions struct {
	// Guard protects everything except the page's own files. Defaults to the zero Guard.
	Guard Guard
	// AdminToken allows requests with "Authorization: Bearer TOKEN" to relist a mirror, to pause and
	// resume a controller, and to retry a key. Defaults to none: the console changes nothing.
	AdminToken string
}

// Handler serves the console of a cluster: a page, and everything on it as JSON. Mount it below a
// path of your choice, without the prefix:
//
//	mux.Handle("/debug/tarn/", http.StripPrefix("/debug/tarn", console.Handler(cluster, console.HandlerOptions{})))
//
// [Mux] and tarn.Cluster's Handler include it. docs/operating/console.md describes the JSON. The handler starts no goroutine and does nothing between requests.
func Handler(c Cluster, opts HandlerOptions) http.Handler {
	h := &handler{cluster: c, opts: opts, busy: make(chan struct{}, maxReads), streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { asset(w, r, "index.html") })
	mux.HandleFunc("GET /assets/{file...}", func(w http.ResponseWriter, r *http.Request) { asset(w, r, r.PathValue("file")) })
	get := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.Handle("GET "+pattern, h.opts.Guard.Wrap(respond(f)))
	}
	get("/status", h.status)
	get("/objects", h.objects)
	get("/object", h.object)
	get("/explain", h.explain)
	mux.Handle("GET /events", h.opts.Guard.Wrap(http.HandlerFunc(h.events)))
	if h.admin() {
		h.administer(mux)
	}
	return secured(mux)
}

// handler has the endpoints of a console.
type handler struct {
	cluster Cluster
	opts    HandlerOptions
	feed    feed
	busy    chan struct{} // has a value for each request that reads objects
	streams chan struct{} // has a value for each open event stream
}

func (h *handler) admin() bool { return h.opts.AdminToken != "" }

// maxReads is how many requests may read objects at the same time; others wait.
const maxReads = 2

// secured sets the headers that keep the page from running or loading anything else.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// page has the page's files: HTML, CSS and ES modules, served unchanged.
//
//go:embed page
var page embed.FS

// asset serves a file of the page.
func asset(w http.ResponseWriter, r *http.Request, name string) {
	if !fs.ValidPath(name) {
		http.NotFound(w, r)
		return
	}
	data, err := page.ReadFile("page/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	// By the extension alone, because the machine's own table of types may lack one.
	kind := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data) // fails only if the client disconnected
}

// httpError is an error with a status code.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

func failf(code int, format string, args ...any) error {
	return &httpError{code, fmt.Sprintf(format, args...)}
}

// respond responds with what f returns as JSON.
func respond(f func(r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		v, err := f(r)
		if err != nil {
			code = http.StatusInternalServerError
			var e *httpError
			if errors.As(err, &e) {
				code = e.code
			}
			v = map[string]string{"error": oneLine(err)}
		}
		data, err := encode(v)
		if err != nil {
			code, data = http.StatusInternalServerError, []byte(`{"error":"the answer could not be encoded"}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(data) // fails only if the client disconnected
	})
}

// encode returns v as one line of JSON. Texts that came from the cluster are safe in HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// answer is the body of /status: the cluster's status and that of the process.
type answer struct {
	statusJSON
	processJSON
	Admin bool `json:"admin"`
}

func (h *handler) status(*http.Request) (any, error) {
	return answer{encodeStatus(h.cluster.Status()), process(), h.admin()}, nil
}

// mirror returns the mirror that a request names.
func (h *handler) mirror(r *http.Request) (Mirror, error) {
	name := r.URL.Query().Get("mirror")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "the parameter mirror is missing")
	}
	m := h.cluster.MirrorNamed(name)
	if m == nil {
		return nil, failf(http.StatusNotFound, "there is no mirror %q", name)
	}
	return m, nil
}

// read waits until the request may read objects. The caller calls the function when it has.
func (h *handler) read(r *http.Request) (done func(), err error) {
	select {
	case h.busy <- struct{}{}:
		return func() { <-h.busy }, nil
	case <-r.Context().Done():
		return nil, failf(http.StatusServiceUnavailable, "the request was cancelled")
	}
}
