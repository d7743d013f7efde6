// Package metrics exports informers, controllers, queues and API requests to Prometheus.
//
//	m, err := metrics.New(registerer)
//	…
//	client, err := wire.New(config, wire.Options{Observers: []wire.Observer{m.Request}})
//	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
//		Observers: []controller.Observer{m.Reconcile},
//		Queue:     workqueue.Options[object.Key]{Metrics: m.Queue("web")},
//	}, sources…)
//	…
//	m.AddCluster(metrics.Static([]metrics.Informer{pods}, []metrics.Controller{web}))
//
// An [Exporter] registers itself only with the Registerer that it is given.
//
// [Exporter.Reconcile], [Exporter.Request] and [Exporter.Queue] record events as they happen.
// Everything else is read from Status on each scrape, once per informer, controller and queue, so
// it costs nothing without scrapes.
//
// # Names
//
// Where controller-runtime or client-go has a metric with the same meaning, its name and labels
// are used, so that existing dashboards and alerts work: controller_runtime_*, workqueue_*,
// rest_client_* and leader_election_*. The rest begins with tarn_. The table is
// docs/operating/metrics.md.
//
// Durations are classic and native histograms at once: Prometheus scrapes the native form if it
// is configured to.
//
// Labels are names of informers, subscribers, indexes, controllers, leases, hosts and
// individually mirrored namespaces, HTTP methods and status codes, states and reasons, but never
// object names or error texts.
//
// Informers that have the same name share their series, and so do controllers: figures are added
// up, times are the longest, and synced, live and connected are 1 if that is true of all. A program
// with several clusters distinguishes them with one Exporter for each:
//
//	metrics.New(prometheus.WrapRegistererWith(prometheus.Labels{"cluster": "east"}, registerer))
package metrics
