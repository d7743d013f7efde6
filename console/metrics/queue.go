package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/workqueue"
)

// What is read from a queue's Stats. The names and meanings are client-go's, except
// the last two.
var (
	queueDescs []*prometheus.Desc
	queueDesc  = family(&queueDescs)

	queueDepth      = queueDesc("workqueue_depth", "Items that wait, those to be taken again after they are done among them.", "name")
	queueUnfinished = queueDesc("workqueue_unfinished_work_seconds", "For how long the items that are processed have been, all together.", "name")
	queueLongest    = queueDesc("workqueue_longest_running_processor_seconds", "For how long the first of the items that are processed has been.", "name")
	queueProcessing = queueDesc("workqueue_processing", "Items that are processed.", "name")
	queueDelayed    = queueDesc("workqueue_delayed", "Items that will wait when they are due.", "name")
)

func collectQueue(to chan<- prometheus.Metric, name string, s workqueue.Stats) {
	gauge(to, queueDepth, float64(s.Waiting+s.Again), name)
	gauge(to, queueUnfinished, s.Unfinished.Seconds(), name)
	gauge(to, queueLongest, s.Longest.Seconds(), name)
	gauge(to, queueProcessing, float64(s.Processing), name)
	gauge(to, queueDelayed, float64(s.Delayed), name)
}

// queued counts what happens in queues, by their names.
type queued struct {
	adds, retries, dropped *prometheus.CounterVec
	waited, worked         *prometheus.HistogramVec
}

func newQueued(buckets []float64) *queued {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"name"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"name"})
	}
	return &queued{
		adds:    counter("workqueue_adds_total", "Items that came to wait."),
		retries: counter("workqueue_retries_total", "Items that were added with a delay or rate-limited."),
		dropped: counter("workqueue_dropped_total", "Items that were added but will not be taken, because the queue was shut down."),
		waited:  histogram("workqueue_queue_duration_seconds", "How long items waited before they were taken."),
		worked:  histogram("workqueue_work_duration_seconds", "How long items were processed."),
	}
}

func (q *queued) parts() []prometheus.Collector {
	return []prometheus.Collector{q.adds, q.retries, q.dropped, q.waited, q.worked}
}

func (q *queued) describe(to chan<- *prometheus.Desc) {
	for _, c := range q.parts() {
		c.Describe(to)
	}
}

func (q *queued) collect(to chan<- prometheus.Metric) {
	for _, c := range q.parts() {
		c.Collect(to)
	}
}

func (q *queued) forget(name string) {
	for _, vec := range []*prometheus.MetricVec{q.adds.MetricVec, q.retries.MetricVec, q.dropped.MetricVec, q.waited.MetricVec, q.worked.MetricVec} {
		vec.DeleteLabelValues(name)
	}
}

// of returns the series of one queue, which are looked up once and not for each item.
func (q *queued) of(name string) workqueue.Metrics {
	return &queueSeries{
		adds: q.adds.WithLabelValues(name), retries: q.retries.WithLabelValues(name), dropped: q.dropped.WithLabelValues(name),
		waited: q.waited.WithLabelValues(name), worked: q.worked.WithLabelValues(name),
	}
}

// queueSeries implements [workqueue.Metrics] for one queue.
type queueSeries struct {
	adds, retries, dropped prometheus.Counter
	waited, worked         prometheus.Observer
}

func (s *queueSeries) Added(n int)            { s.adds.Add(float64(n)) }
func (s *queueSeries) Retried(n int)          { s.retries.Add(float64(n)) }
func (s *queueSeries) Dropped(n int)          { s.dropped.Add(float64(n)) }
func (s *queueSeries) Waited(d time.Duration) { s.waited.Observe(d.Seconds()) }
func (s *queueSeries) Worked(d time.Duration) { s.worked.Observe(d.Seconds()) }
