package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// family is a metric that is read on each scrape.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels int
	merge  func(a, b float64) float64 // for informers or controllers of one name
}

// families are all of them.
var families []*family

func newFamily(kind prometheus.ValueType, merge func(a, b float64) float64, name, help string, labels ...string) *family {
	f := &family{prometheus.NewDesc(name, help, labels, nil), kind, len(labels), merge}
	families = append(families, f)
	return f
}

func sum(a, b float64) float64 { return a + b }

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, sum, name, help, labels...)
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, sum, name, help, labels...)
}

// longest is a gauge of a time.
func longest(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, math.Max, name, help, labels...)
}

// every is a gauge that is 1 if something is true of all.
func every(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, math.Min, name, help, labels...)
}

// series is a family with label values.
type series struct {
	*family
	values [3]string
}

// samples are the values of one scrape. Names are the user's and need not differ, but a scrape
// with the same series twice fails as a whole; so values of one series are merged.
type samples map[series]float64

func (s samples) add(f *family, v float64, labels ...string) {
	id := series{family: f}
	copy(id.values[:], labels)
	if old, ok := s[id]; ok {
		v = f.merge(old, v)
	}
	s[id] = v
}

func (s samples) send(to chan<- prometheus.Metric) {
	for id, v := range s {
		to <- prometheus.MustNewConstMetric(id.desc, id.kind, v, id.values[:id.labels]...)
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
