package informer_test

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// The object is dropped while the filter panics for it, whichever of its states that is.
func TestH04_AFilterThatPanicsDropsThatObjectOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/a", "shop/bad", "shop/b")
		inf := newInformer(t, srv, podOptions{})
		var d simtest.Recorder
		_, err := inf.SubscribeBatch(func(_ context.Context, events []informer.Event[*corev1.Pod]) {
			for _, e := range events {
				d.Add("%v %s", e.Kind, e.Key.Name)
			}
		}, informer.SubOptions[*corev1.Pod]{
			OnPanic: func(e *informer.PanicError) { d.Add("panic %s", e.Key.Name); panic("twice") },
			Filter: func(p *corev1.Pod) bool {
				if p.Name == "bad" && p.Labels["ok"] == "" {
					panic("no label")
				}
				return true
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, inf)
		synctest.Wait()
		simtest.Want(t, "the state", d.Take(), []string{"panic bad", "Added a", "Added b"})
		srv.Set("shop/bad", func(p *corev1.Pod) { p.Labels = map[string]string{"ok": "1"} })
		synctest.Wait()
		simtest.Want(t, "corrected", d.Take(), []string{"panic bad", "Added bad"})
	})
}
