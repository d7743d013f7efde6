package clientgo

import (
	"reflect"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/client-go/util/workqueue"

	own "github.com/tarnproject/tarn/workqueue"
)

// workMetrics passes the measurements of Tarn's queue on to client-go's metrics. The queue reports
// without its lock, so a reader may see an item's Get before its Add: the depth can be wrong by the
// number of goroutines in a call.
type workMetrics struct {
	depth               workqueue.GaugeMetric
	adds                workqueue.CounterMetric
	latency, work       workqueue.HistogramMetric
	unfinished, longest workqueue.SettableGaugeMetric
}

// metricsOf returns the metrics of a queue, nil for one without a name or a provider.
func metricsOf(name string, provider workqueue.MetricsProvider) *workMetrics {
	p := providerOf(name, provider)
	if p == nil {
		return nil
	}
	return &workMetrics{
		depth:      p.NewDepthMetric(name),
		adds:       p.NewAddsMetric(name),
		latency:    p.NewLatencyMetric(name),
		work:       p.NewWorkDurationMetric(name),
		unfinished: p.NewUnfinishedWorkSecondsMetric(name),
		longest:    p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

// retriesOf returns the counter of retries, nil where there is none.
func retriesOf(name string, provider workqueue.MetricsProvider) workqueue.CounterMetric {
	if p := providerOf(name, provider); p != nil {
		return p.NewRetriesMetric(name)
	}
	return nil
}

func providerOf(name string, provider workqueue.MetricsProvider) workqueue.MetricsProvider {
	if name == "" {
		return nil
	}
	if provider == nil {
		provider = globalMetricsProvider
	}
	if provider == nil || reflect.TypeOf(provider).PkgPath() == reflect.TypeFor[workqueue.MetricsProvider]().PkgPath() {
		return nil // client-go's own, which does nothing
	}
	return provider
}

// globalMetricsProvider is what workqueue.SetProvider sets; controller-runtime and
// component-base do so for every program that links them. client-go has no function that
// returns it, and without it a program that changes one line would lose its queues'
// metrics, silently. Should a later client-go have no such variable then this is one of
// our own and stays nil, and a test fails.
//
//go:linkname globalMetricsProvider k8s.io/client-go/util/workqueue.globalMetricsProvider
var globalMetricsProvider workqueue.MetricsProvider

// Added implements [own.Metrics].
func (m *workMetrics) Added(n int) {
	for range n {
		m.adds.Inc()
		m.depth.Inc()
	}
}

// Waited implements [own.Metrics].
func (m *workMetrics) Waited(d time.Duration) {
	m.depth.Dec()
	m.latency.Observe(d.Seconds())
}

// Worked implements [own.Metrics].
func (m *workMetrics) Worked(d time.Duration) { m.work.Observe(d.Seconds()) }

// Retried implements [own.Metrics]; the layer with the delays counts them.
func (m *workMetrics) Retried(int) {}

// Dropped implements [own.Metrics]; client-go has no metric for it.
func (m *workMetrics) Dropped(int) {}

// reportEvery is how often client-go reports unfinished work.
const reportEvery = 500 * time.Millisecond

// report sets the metrics of unfinished work periodically. A nil report does nothing.
type report struct {
	once sync.Once
	end  chan struct{}
	over chan struct{}
}

func startReport(m *workMetrics, stats func() own.Stats) *report {
	r := &report{end: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(r.over)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			select {
			case <-r.end:
				return
			case <-ticker.C:
				s := stats()
				m.unfinished.Set(s.Unfinished.Seconds())
				m.longest.Set(s.Longest.Seconds())
			}
		}
	}()
	return r
}

// stop ends the report and waits until it has ended. It may be called more than once.
func (r *report) stop() {
	if r == nil {
		return
	}
	r.once.Do(func() { close(r.end) })
	<-r.over
}
