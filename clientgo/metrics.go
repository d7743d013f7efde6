package clientgo

import (
	"reflect"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/client-go/tools/cache"
)

// queueMetrics are the metrics of an informer's queue; nil without a provider.
type queueMetrics struct {
	queued  cache.GaugeMetric
	latency cache.HistogramMetric
}

func metricsFor(id cache.InformerNameAndResource, provider cache.InformerMetricsProvider) *queueMetrics {
	if !id.Reserved() {
		return nil
	}
	if provider == nil {
		provider = globalInformerMetricsProvider
	}
	if provider == nil || reflect.TypeOf(provider).PkgPath() == reflect.TypeFor[cache.InformerMetricsProvider]().PkgPath() {
		return nil // client-go's own, which does nothing
	}
	return &queueMetrics{queued: provider.NewQueuedItemMetric(id), latency: provider.NewProcessingLatencyMetric(id)}
}

// globalInformerMetricsProvider is what cache.SetInformerMetricsProvider sets. client-go has no function that
// returns it, and a test fails should a later client-go have no such variable.
//
//go:linkname globalInformerMetricsProvider k8s.io/client-go/tools/cache.globalInformerMetricsProvider
var globalInformerMetricsProvider cache.InformerMetricsProvider

// processing notes that n changes are being processed, until done is called.
func (m *queueMetrics) processing(n int) (done func()) {
	if m == nil {
		return func() {}
	}
	began := time.Now()
	m.queued.Set(float64(n))
	return func() {
		m.queued.Set(0)
		m.latency.Observe(time.Since(began).Seconds())
	}
}
