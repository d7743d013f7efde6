// Package metrics exports queues, informers and controllers to Prometheus.
//
//	m, err := metrics.New(registerer, metrics.Options{})
//	…
//	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
//		Queue: workqueue.Options[object.Key]{Metrics: m.Queue("web")},
//	}, sources…)
//	…
//	err = errors.Join(m.AddController(web), m.AddInformer(pods))
//
// An [Exporter] registers itself only with the Registerer that it is given.
//
// The workqueue.Metrics that [Exporter.Queue] returns counts queue events as they happen.
// Everything else is read from Status on each scrape, so it costs nothing without scrapes.
//
// # Names
//
// Queue metrics have client-go's names, so that existing dashboards and alerts work:
// workqueue_depth, workqueue_adds_total, workqueue_queue_duration_seconds,
// workqueue_work_duration_seconds, workqueue_unfinished_work_seconds,
// workqueue_longest_running_processor_seconds and workqueue_retries_total, all with the
// label name. The rest begins with tarn_informer_, tarn_reflector_ and tarn_controller_.
//
// Labels are names of informers, subscribers, indexes, controllers and individually mirrored
// namespaces, states and reasons, but never object names or error texts.
package metrics
