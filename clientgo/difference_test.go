package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// The tests here hold docs/clientgo-differences.md, by its ids: what client-go does, and
// what is done here.

func TestD01_AWatchThatBreaksIsResumedWithoutAList(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			w.put("a1", false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			h.take()
			w.cut() // at once: a very short watch
			<-time.After(time.Minute)
			w.put("a1", false)
			synctest.Wait()
			lists, lines := 1, 1
			if name == "client-go" {
				lists, lines = 2, 2
			}
			if got := h.take(); w.lists() != lists || len(got) != lines {
				t.Errorf("%s: %d lists, received %q", name, w.lists(), got)
			}
		})
	}
}

func TestD22_NoDeletionIsLostWhereAWatchEndsBetweenTwoOfOneVersion(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			for _, pod := range []string{"a1", "a2", "a3"} {
				w.put(pod, false)
			}
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			h.take()
			<-time.After(time.Minute)
			w.DeleteTogether(1, "ns1/a1", "ns2/a2", "ns3/a3") // 14
			w.cut()
			<-time.After(time.Minute)
			synctest.Wait()
			gone, version := len(h.take()), inf.LastSyncResourceVersion()
			want := map[string]int{"client-go": 1, "ours": 3}[name]
			if left := len(inf.GetStore().ListKeys()); gone != want || left != 3-want || version != "14" || w.lists() != 1 {
				t.Errorf("%s: %d deletions reported, %d pods left at %s after %d lists", name, gone, left, version, w.lists())
			}
		})
	}
}

// podServer ignores timeouts, so its watches end only when the test cuts them.
func TestD29_AWatchThatOutlastsItsTimeoutIsReplaced(t *testing.T) {
	withoutErrorHandlers(t)
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			<-time.After(5*time.Minute + 29*time.Second)
			if n := w.Counts().Watches; n != 1 {
				t.Errorf("%s: %d watches before any timeout has passed", name, n)
			}
			<-time.After(5*time.Minute + 5*time.Second) // the longest timeout, 30 s, and a back-off
			w.put("a1", false)
			synctest.Wait()
			want := map[string]int{"client-go": 1, "ours": 2}[name]
			if counts, calls := w.Counts(), h.take(); counts.Watches != want || counts.Lists != 1 || len(calls) != 1 {
				t.Errorf("%s: %d watches, %d lists, received %q", name, counts.Watches, counts.Lists, calls)
			}
		})
	}
}

func TestD04_ATransformSeesAnObjectOnce(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(true)
			w.put("a1", false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			calls := 0
			err := inf.SetTransform(func(obj any) (any, error) {
				calls++
				return obj, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			start(t, inf)
			if want := map[string]int{"client-go": 2, "ours": 1}[name]; calls != want {
				t.Errorf("%s: %d calls, want %d", name, calls, want)
			}
		})
	}
}

// series is a gauge that keeps what it was set to.
type series struct{ values []float64 }

func (s *series) Set(v float64)     { s.values = append(s.values, v) }
func (s *series) Observe(v float64) {}

type seriesProvider struct {
	provider
	queued series
}

func (p *seriesProvider) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.queued
}

func TestD19_TheLengthOfAQueueIsThatOfABatch(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			id, err := cache.NewInformerName("d19-" + name)
			if err != nil {
				t.Fatal(err)
			}
			defer id.Release()
			p, w := &seriesProvider{}, newPodServer(false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{
				Identifier: id.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
			})
			stop := start(t, inf)
			w.locked(func() {
				for i := range 5 {
					w.put(fmt.Sprintf("a%d", i), false)
				}
			})
			synctest.Wait()
			stop()
			// The list is one change. An implementation that counts single changes sets the
			// gauge for each; one that counts batches sets it to numbers that add up to all.
			set, sum := 0, 0.0
			for _, v := range p.queued.values {
				if v > 0 {
					set++
				}
				sum += v
			}
			if name == "ours" && (sum != 6 || len(p.queued.values) != 2*set) || name == "client-go" && set != 6 {
				t.Errorf("%s: the gauge was set to %v", name, p.queued.values)
			}
		})
	}
}
