package console

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tarnproject/tarn/console/metrics"
)

// Options choose what [Mux] mounts. The zero Options mount /healthz and /readyz without checks.
type Options struct {
	// Cluster is what /healthz and /readyz report on. Defaults to none.
	Cluster metrics.Cluster
	// Healthz and Readyz are further checks. Default to none.
	Healthz, Readyz []Check
	// Metrics is what /metrics exports. Defaults to none: there is no /metrics.
	Metrics prometheus.Gatherer
	// Console is the cluster that the console at /debug/tarn/ shows. Defaults to none: there is no
	// /debug/tarn/.
	Console Cluster
	// Profiling mounts /debug/pprof/. Defaults to false.
	Profiling bool
	// AdminToken allows changes in the console; see [HandlerOptions]. Defaults to none.
	AdminToken string
	// Guard protects /debug/. Defaults to the zero Guard.
	Guard Guard
	// Logger receives failures to collect metrics. Defaults to none.
	Logger *slog.Logger
}

// maxScrapes is how many scrapes may run at the same time; further ones get 503.
const maxScrapes = 4

// Mux returns a mux with the pages that the options choose. The caller may add others before it
// serves the mux.
func Mux(opts Options) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", Healthz(opts.Cluster, opts.Healthz...))
	mux.Handle("GET /readyz", Readyz(opts.Cluster, opts.Readyz...))
	if opts.Metrics != nil {
		handler := promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}
		if opts.Logger != nil {
			handler.ErrorLog = slog.NewLogLogger(opts.Logger.Handler(), slog.LevelError)
		}
		mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Metrics, handler))
	}
	if opts.Console != nil {
		mux.Handle("/debug/tarn/", http.StripPrefix("/debug/tarn", Handler(opts.Console, HandlerOptions{Guard: opts.Guard, AdminToken: opts.AdminToken})))
	}
	if opts.Profiling {
		mux.Handle("GET /debug/pprof/", opts.Guard.Wrap(http.StripPrefix("/debug/pprof/", profiles())))
	}
	return mux
}
