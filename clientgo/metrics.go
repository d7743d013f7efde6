package clientgo

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/delta"
)

// queueMetrics are those of an informer's queue; nil where nobody asked for them. The
// provider that client-go holds for the whole process is out of reach from here, so one
// has to be given.
type queueMetrics struct {
	queued  cache.GaugeMetric
	latency cache.HistogramMetric
}

func metricsFor(id cache.InformerNameAndResource, provider cache.InformerMetricsProvider) *queueMetrics {
	if provider == nil || !id.Reserved() {
		return nil
	}
	return &queueMetrics{queued: provider.NewQueuedItemMetric(id), latency: provider.NewProcessingLatencyMetric(id)}
}

// processed notes that a batch has been processed.
func (m *queueMetrics) processed(fifo *delta.FIFO[*record], began time.Time) {
	if m == nil {
		return
	}
	m.queued.Set(float64(fifo.Stats().Deltas))
	m.latency.Observe(time.Since(began).Seconds())
}
