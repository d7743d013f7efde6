package clientgo_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// resyncing is an informer or a reflector with a resync period of ten seconds, and the calls that
// its resyncs make.
type resyncing struct {
	run   func(context.Context)
	calls *recording
}

// eachResyncing runs a test over client-go's implementations and over ours.
func eachResyncing(t *testing.T, test func(t *testing.T, w *podServer, r resyncing)) {
	const period = 10 * time.Second
	informer := func(make newInformer) func(t *testing.T, w *podServer) resyncing {
		return func(t *testing.T, w *podServer) resyncing {
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{ResyncPeriod: period})
			h := listen(t, inf)
			return resyncing{inf.RunWithContext, &h.recording}
		}
	}
	for name, make := range map[string]func(t *testing.T, w *podServer) resyncing{
		"informer/client-go": informer(cache.NewSharedIndexInformerWithOptions),
		"informer/ours":      informer(clientgo.NewSharedIndexInformerWithOptions),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPodServer(false)
				w.put("a1", false)
				r := make(t, w)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				running.Go(func() { r.run(ctx) })
				synctest.Wait()
				test(t, w, r)
			})
		})
	}
}

// after returns the number of calls within the time from now.
func (r resyncing) after(d time.Duration) int {
	<-time.After(d)
	synctest.Wait()
	return len(r.calls.take())
}

func TestTheResyncPeriodBeginsAnewWithEveryList(t *testing.T) {
	eachResyncing(t, func(t *testing.T, w *podServer, r resyncing) {
		r.calls.take()
		if n := r.after(11 * time.Second); n != 1 {
			t.Errorf("%d resyncs within 11 s", n)
		}
		<-time.After(6 * time.Second) // 17 s
		w.expire(true)
		r.after(2 * time.Second) // 19 s; the list was made, after a back-off of up to 1.6 s
		if w.lists() != 2 {
			t.Fatalf("%d lists", w.lists())
		}
		if n := r.after(7 * time.Second); n != 0 { // 26 s
			t.Errorf("%d resyncs within a period after a list", n)
		}
		if n := r.after(4 * time.Second); n != 1 { // 30 s
			t.Errorf("%d resyncs a period after a list, want 1", n)
		}
		if n := r.after(10 * time.Second); n != 1 { // 40 s
			t.Errorf("%d resyncs in the next period, want 1", n)
		}
	})
}

// withoutErrorHandlers takes apimachinery's error handlers away until the test ends. One of
// them waits for what it takes for a millisecond since the last error, and in a bubble,
// where the year is 2000, is decades.
func withoutErrorHandlers(t *testing.T) {
	was := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = was })
}

func TestNothingIsResyncedWhileListsFail(t *testing.T) {
	withoutErrorHandlers(t)
	eachResyncing(t, func(t *testing.T, w *podServer, r resyncing) {
		r.calls.take()
		<-time.After(5 * time.Second)
		w.locked(func() {
			w.listErrs = 1 << 20
			w.expire(true)
		})
		if n := r.after(2 * time.Minute); n != 0 || w.lists() < 4 {
			t.Errorf("%d resyncs and %d lists", n, w.lists())
		}
	})
}

// In client-go a resync goes on while a watch is tried again, and here also while it is
// resumed, where client-go would list (D01).
func TestResyncsGoOnBetweenWatches(t *testing.T) {
	eachResyncing(t, func(t *testing.T, w *podServer, r resyncing) {
		r.calls.take()
		<-time.After(5 * time.Second)
		w.cut()
		if n := r.after(6 * time.Second); n != 1 {
			t.Errorf("%d resyncs within 11 s", n)
		}
	})
}
