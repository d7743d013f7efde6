// Package metrics shows queues, informers and controllers to Prometheus.
//
//	m, err := metrics.New(registerer, metrics.Options{})
//	…
//	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
//		Queue: workqueue.Options[object.Key]{Metrics: m.Queue("web")},
//	}, sources…)
//	…
//	err = errors.Join(m.AddController(web), m.AddInformer(pods))
//
// [Exporter] is all there is. Nothing is global: it registers itself with the Registerer
// that it is given and nowhere else.
//
// What happens in a queue is counted as it happens, by what [Exporter.Queue] returns.
// Everything else is read from the Status of its owner on each scrape, so a part
// that is never scraped costs nothing.
//
// # Names
//
// Those of queues are client-go's, so that dashboards and alerts for it go on working:
// workqueue_depth, workqueue_adds_total, workqueue_queue_duration_seconds,
// workqueue_work_duration_seconds, workqueue_unfinished_work_seconds,
// workqueue_longest_running_processor_seconds and workqueue_retries_total, all with the
// label name. The rest begins with tarn_informer_, tarn_reflector_ and tarn_controller_.
//
// Labels are names of informers, subscribers, indexes, controllers and namespaces that
// are mirrored one by one, states and reasons; never names of objects, and no texts of
// errors.
package metrics
