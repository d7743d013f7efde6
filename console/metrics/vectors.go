package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/controller"
)

// vectors are the metrics that are recorded as things happen.
type vectors struct {
	reconciles, errors, terminal, panics *prometheus.CounterVec
	reconcileTime                        *prometheus.HistogramVec

	controllers sync.Map   // from names to *reconcileSeries
	making      sync.Mutex // held while an entry of controllers is made or deleted

	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec

	adds, retries, dropped *prometheus.CounterVec
	waited, worked         *prometheus.HistogramVec
}

func newVectors() *vectors {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	// The limits of the native form are controller-runtime's: resolution is reduced when a
	// series has 100 buckets, at most once an hour.
	durations := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	reconcileBuckets := []float64{
		.005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1,
		1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
	requestBuckets := []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}
	queueBuckets := prometheus.ExponentialBuckets(10e-9, 10, 12)
	return &vectors{
		reconciles:    count("controller_runtime_reconcile_total", "Reconciles, by result. Panics and terminal errors count as error.", "controller", "result"),
		errors:        count("controller_runtime_reconcile_errors_total", "Reconciles that returned an error or panicked. Conflicts and stale caches are not errors.", "controller"),
		terminal:      count("controller_runtime_terminal_reconcile_errors_total", "Reconciles that returned a terminal error.", "controller"),
		panics:        count("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller"),
		reconcileTime: durations("controller_runtime_reconcile_time_seconds", "Duration of reconciles.", reconcileBuckets, "controller"),

		requests:    count("rest_client_requests_total", "Attempts of API requests, by HTTP status and method. The code is <error> without a response.", "code", "method", "host"),
		requestTime: durations("rest_client_request_duration_seconds", "Duration of attempts of API requests other than watches, by HTTP method.", requestBuckets, "verb", "host"),

		adds:    count("workqueue_adds_total", "Items added to the queue.", "name", "controller"),
		retries: count("workqueue_retries_total", "Items added with a delay or with back-off.", "name", "controller"),
		dropped: count("workqueue_dropped_total", "Items that were not processed because the queue was shut down.", "name", "controller"),
		waited:  durations("workqueue_queue_duration_seconds", "Time that items waited in the queue.", queueBuckets, "name", "controller"),
		worked:  durations("workqueue_work_duration_seconds", "Time that items were processed.", queueBuckets, "name", "controller"),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.reconciles, v.errors, v.terminal, v.panics, v.reconcileTime,
		v.requests, v.requestTime,
		v.adds, v.retries, v.dropped, v.waited, v.worked,
	}
}

// results are the values of the label result.
var results = []controller.Outcome{
	controller.OutcomeSuccess, controller.OutcomeError, controller.OutcomeRequeue, controller.OutcomeRequeueAfter,
	controller.OutcomeConflict, controller.OutcomeStale, controller.OutcomeFenced,
}

// reconcileSeries are the metrics of one controller's reconciles. Looking them up by labels
// takes longer than counting.
type reconcileSeries struct {
	results                  map[controller.Outcome]prometheus.Counter // not changed once made
	errors, terminal, panics prometheus.Counter
	time                     prometheus.Observer
}

// controller returns the series of a controller. The first call exports zeros, so that the first
// error is an increase.
func (v *vectors) controller(name string) *reconcileSeries {
	if s, ok := v.controllers.Load(name); ok {
		return s.(*reconcileSeries)
	}
	v.making.Lock()
	defer v.making.Unlock()
	if s, ok := v.controllers.Load(name); ok {
		return s.(*reconcileSeries)
	}
	s := &reconcileSeries{
		results: map[controller.Outcome]prometheus.Counter{},
		errors:  v.errors.WithLabelValues(name), terminal: v.terminal.WithLabelValues(name), panics: v.panics.WithLabelValues(name),
		time: v.reconcileTime.WithLabelValues(name),
	}
	for _, result := range results {
		s.results[result] = v.reconciles.WithLabelValues(name, string(result))
	}
	v.controllers.Store(name, s)
	return s
}

// forget deletes the series of a controller and its queue.
func (v *vectors) forget(name string) {
	v.making.Lock()
	defer v.making.Unlock()
	for _, vec := range []*prometheus.MetricVec{
		v.reconciles.MetricVec, v.errors.MetricVec, v.terminal.MetricVec, v.panics.MetricVec, v.reconcileTime.MetricVec,
		v.adds.MetricVec, v.retries.MetricVec, v.dropped.MetricVec, v.waited.MetricVec, v.worked.MetricVec,
	} {
		vec.DeletePartialMatch(prometheus.Labels{"controller": name})
	}
	v.controllers.Delete(name)
}
