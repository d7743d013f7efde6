package console

import (
	"errors"
	"mime"
	"net/http"

	"github.com/tarnproject/tarn/object"
)

// errRelist is the cause of a relist that an administrator asked for.
var errRelist = errors.New("requested in the console")

// administer mounts the requests that change what the program does. Each needs the admin token, and
// a JSON body, which a form on another site cannot send.
func (h *handler) administer(mux *http.ServeMux) {
	post := func(pattern string, f func(r *http.Request) error) {
		mux.HandleFunc("POST /admin/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			if !bearer(r, h.opts.AdminToken) { // a cookie does not do
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "this page requires a bearer token", http.StatusUnauthorized)
				return
			}
			err := jsonOnly(r)
			if err == nil {
				err = f(r)
			}
			if err != nil {
				respond(func(*http.Request) (any, error) { return nil, err }).ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	post("relist", func(r *http.Request) error {
		m, err := h.mirror(r)
		if err == nil {
			m.Relist(errRelist)
		}
		return err
	})
	post("pause", h.toController(func(c Controller, _ *http.Request) error { c.Pause(); return nil }))
	post("resume", h.toController(func(c Controller, _ *http.Request) error { c.Resume(); return nil }))
	post("retry", h.toController(func(c Controller, r *http.Request) error {
		key, err := object.Parse(r.URL.Query().Get("key"))
		if err != nil {
			return failf(http.StatusBadRequest, "key: %v", err)
		}
		if err := c.Retry(key); err != nil {
			return failf(http.StatusConflict, "%v", err)
		}
		return nil
	}))
}

func jsonOnly(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return failf(http.StatusUnsupportedMediaType, "the request needs the header Content-Type: application/json")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return failf(http.StatusForbidden, "this page is not available to other sites")
	}
	return nil
}

// toController calls f with the controller that a request names.
func (h *handler) toController(f func(Controller, *http.Request) error) func(*http.Request) error {
	return func(r *http.Request) error {
		name := r.URL.Query().Get("controller")
		c := h.cluster.ControllerNamed(name)
		if c == nil {
			return failf(http.StatusNotFound, "there is no controller %q", name)
		}
		return f(c, r)
	}
}
