// Package console serves what a program wants to know about itself over HTTP: metrics, health,
// profiles, and a page that shows its mirrors and controllers at work.
//
//	mux := console.Mux(console.Options{Cluster: cluster, Metrics: registry, Profiling: true})
//	err := console.Serve(ctx, ":8080", mux)
//
// [Mux] mounts
//
//   - /metrics for Prometheus; package console/metrics has the collectors,
//   - /healthz, which fails if a controller failed, and /readyz, which fails until all informers
//     are synced; see [Healthz] and [Readyz],
//   - /debug/tarn/ with the console: the page, and everything on it as JSON; see [Handler],
//     [Explain] and [Problems],
//   - /debug/pprof/ for go tool pprof, if enabled and behind a [Guard].
//
// The parts are http.Handlers that a program can mount elsewhere. A program adds its own pages to
// the mux, and puts TLS or authentication in front of it as with any other handler: /metrics,
// /healthz and /readyz answer everyone who can connect. What a [Guard] protects requires a token on a
// server that other machines can reach.
//
// [Server] runs until its context is done, then lets requests finish. It is a controller.Runner.
package console
