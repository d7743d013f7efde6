package tarn

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller/recorder"
)

// Recorder records Kubernetes events about objects; see recorder.Recorder.
type Recorder = recorder.Recorder

// Recorder returns the recorder of the events of a controller, which the cluster runs. The name
// is the reporting controller of the events. Later calls with the same name return the same
// recorder.
func (c *Cluster) Recorder(controller string) *Recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.recorders[controller]; r != nil {
		return r
	}
	r := recorder.New(c.client, controller, recorder.Options{Logger: c.opts.logger})
	c.recorders[controller] = r
	if c.phase == running {
		c.record(r)
	}
	return r
}

// Serve serves [Cluster.Handler] on an address such as ":8080" until the context is done.
func (c *Cluster) Serve(ctx context.Context, addr string) error {
	return (&console.Server{Addr: addr, Handler: c.Handler(), Logger: c.opts.logger}).Run(ctx)
}

// Handler responds to
//
//   - /metrics with the metrics of mirrors, controllers, queues, requests and leader election,
//     and those of [Cluster.Registry],
//   - /healthz with 200 unless a controller has failed,
//   - /readyz with 200 when all mirrors are synced, the sources of running controllers are ready and,
//     with [WithSharding], this process has had its share of the keys once, and otherwise with what
//     is missing and why,
//   - /debug/tarn/ with the console, and /debug/pprof/ with profiles. [Cluster.Serve] on a loopback
//     address allows requests from this machine; on any other address they require the token of
//     [WithConsole], or else one that is logged when a request first lacks it.
//
// A program can add its own pages to the mux, and put TLS or authentication in front of it. In a
// server of its own, /debug/ requires a token or console.OnLoopback.
func (c *Cluster) Handler() *http.ServeMux {
	var ready []console.Check
	if c.group != nil {
		ready = append(ready, console.Check{Name: "shards", Run: func(context.Context) error { return c.group.Ready() }})
	}
	return console.Mux(console.Options{Cluster: observed{c.work, c}, Readyz: ready, Metrics: c.registry, Console: c, Guard: c.opts.console.Guard, AdminToken: c.opts.console.AdminToken, Profiling: true, Logger: c.opts.logger})
}

// Registry returns the registry behind /metrics, for the program's own metrics.
func (c *Cluster) Registry() *prometheus.Registry { return c.registry }

// newRegistry returns a registry with the metrics of the Go runtime and the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// observed is a cluster as package metrics sees it.
type observed struct {
	*controllers
	cluster *Cluster
}

// Informers implements [metrics.Cluster].
func (o observed) Informers() []metrics.Informer {
	var all []metrics.Informer
	for _, m := range o.cluster.declared() {
		all = append(all, m.inf)
	}
	return all
}
