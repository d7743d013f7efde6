package clientgo_test

import (
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

type gauge struct{ value float64 }

func (g *gauge) Set(v float64)     { g.value = v }
func (g *gauge) Observe(v float64) { g.value++ }

type provider struct{ queued, latency, version gauge }

func (p *provider) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.queued
}
func (p *provider) NewProcessingLatencyMetric(cache.InformerNameAndResource) cache.HistogramMetric {
	return &p.latency
}
func (p *provider) NewStoreResourceVersionMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.version
}

func TestMetricsOfANamedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name, err := cache.NewInformerName("metrics-test")
		if err != nil {
			t.Fatal(err)
		}
		defer name.Release()
		p, w := &provider{queued: gauge{-1}}, newPodServer(true)
		w.put("a1", false)
		inf := clientgo.NewSharedIndexInformerWithOptions(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
		})
		stop := start(t, inf)
		w.put("a1", false)
		synctest.Wait()
		stop()
		if p.version.value != 12 || p.queued.value != 0 || p.latency.value != 2 {
			t.Errorf("version %v, queued %v, batches %v", p.version.value, p.queued.value, p.latency.value)
		}
		if got := inf.GetController().LastSyncResourceVersion(); got != "12" {
			t.Errorf("the controller says %q", got)
		}
	})
}

// ofInformers is the process's provider, which can be set once.
var ofInformers = sync.OnceValue(func() *provider {
	p := &provider{}
	cache.SetInformerMetricsProvider(p)
	return p
})

func TestTheProcessesProviderIsUsedWhereTheInformersOptionsNameNone(t *testing.T) {
	p := ofInformers()
	*p = provider{queued: gauge{-1}}
	synctest.Test(t, func(t *testing.T) {
		name, err := cache.NewInformerName("global-metrics-test")
		if err != nil {
			t.Fatal(err)
		}
		defer name.Release()
		w := newPodServer(true)
		w.put("a1", false)
		stop := start(t, clientgo.NewSharedIndexInformerWithOptions(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")),
		}))
		stop()
		// The version is that of client-go's store, which has used this provider since v0.37.
		if p.queued.value != 0 || p.latency.value != 1 {
			t.Errorf("queued %v, batches %v", p.queued.value, p.latency.value)
		}
		p.latency = gauge{}
		stop = start(t, clientgo.NewSharedIndexInformerWithOptions(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{}))
		stop()
		if p.latency.value != 0 {
			t.Error("an informer without a name has metrics")
		}
	})
}
