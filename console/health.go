package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Check is one line of /healthz or /readyz.
type Check struct {
	// Name says what is checked, such as "database".
	Name string
	// Run returns nil, or why the check fails. It is called for each request, from several
	// goroutines, and should return when the request's context is done.
	Run func(ctx context.Context) error
}

// Healthz returns the handler of a liveness probe. It fails if the last run of a controller
// failed, or a further check does. The cluster may be nil.
func Healthz(c metrics.Cluster, more ...Check) http.Handler {
	return health("healthz", func() (checks []Check) {
		if c != nil {
			for _, ctl := range c.Controllers() {
				checks = append(checks, Check{"controller/" + ctl.Name(), func(context.Context) error { return ctl.Status().Err }})
			}
		}
		return append(checks, more...)
	})
}

// Readyz returns the handler of a readiness probe. It fails until every informer is synced, while a
// controller waits for its sources, and while a further check fails. An informer that loses its watch
// later stays ready, because its last state can be read. What affects single keys of a controller, a
// function that panicked or a reconcile that hangs, is listed with [!] and does not fail the probe.
// The cluster may be nil.
func Readyz(c metrics.Cluster, more ...Check) http.Handler {
	return health("readyz", func() (checks []Check) {
		if c != nil {
			for _, inf := range c.Informers() {
				checks = append(checks, Check{"informer/" + inf.Name(), func(context.Context) error { return unsynced(inf.Status()) }})
			}
			for _, ctl := range c.Controllers() {
				checks = append(checks, Check{"controller/" + ctl.Name(), func(context.Context) error { return unready(ctl.Status()) }})
			}
		}
		return append(checks, more...)
	})
}

// warning is the error of a check that does not fail the probe.
type warning struct{ error }

// unready returns why a controller reconciles no key, or not all of them.
func unready(s controller.Status) error {
	switch {
	case s.State == controller.Starting:
		return fmt.Errorf("waiting for its sources: %w", cmp.Or(s.NotReady, errors.New("not ready")))
	case s.FunctionPanics > 0:
		return warning{fmt.Errorf("%s of the program's functions, the last: %s", counted(s.FunctionPanics, "panic", "panics"), public(s.LastFunctionPanic))}
	case len(s.Running) > 0 && time.Since(s.Running[0].Since) > slowReconcile:
		return warning{fmt.Errorf("a reconcile has run for %s", inWords(time.Since(s.Running[0].Since)))}
	}
	return nil
}

// unsynced returns why an informer is not synced, or nil.
func unsynced(s informer.Status) error {
	if s.Synced {
		return nil
	}
	for i := range s.Sources {
		if err := s.Sources[i].Err(); err != nil {
			return fmt.Errorf("not synced: %w", err)
		}
	}
	switch {
	case s.Stopped:
		return errors.New("not synced: stopped")
	case !s.Running:
		return errors.New("not synced: not started")
	}
	return errors.New("not synced: listing")
}

// public returns the text of an error for clients that are not authenticated: it names the function that
// panicked, but neither the panic's value nor a key. Those are in the log and the console.
func public(err error) string {
	var of *controller.PanicError
	var other *object.PanicError
	switch {
	case errors.As(err, &of):
		return "panic in " + cmp.Or(of.Function, "the reconcile")
	case errors.As(err, &other):
		return "panic in a function of the program"
	case errors.Is(err, controller.ErrStillRunning):
		return "reconciles did not stop"
	}
	return oneLine(err)
}

// health responds as the endpoints of a kube-apiserver do: "ok" with status 200 if all checks
// pass, otherwise 503. The body lists all checks if one fails or warns, or the query has verbose, and a
// cause that several share once.
func health(name string, list func() []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		code, result, warned := http.StatusOK, "passed", false
		first := map[string]string{} // the check that names a cause that others share
		for _, c := range append([]Check{{"ping", func(context.Context) error { return nil }}}, list()...) {
			switch err := c.Run(r.Context()).(type) {
			case nil:
				fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
			case warning:
				warned = true
				fmt.Fprintf(&b, "[!]%s ok, but: %s\n", c.Name, public(err))
			default:
				code, result = http.StatusServiceUnavailable, "failed"
				why, cause := public(err), sharedCause(err)
				if check := first[cause]; check != "" {
					why = "see " + check
				} else if cause != "" {
					first[cause] = c.Name
				}
				fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, why)
			}
		}
		fmt.Fprintf(&b, "%s check %s\n", name, result)
		body := b.String()
		if code == http.StatusOK && !warned && !r.URL.Query().Has("verbose") {
			body = "ok"
		}
		plain(w)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // fails only if the client disconnected
	})
}

// plain sets the headers of a text that no cache keeps and no browser interprets.
func plain(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
