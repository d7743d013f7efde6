package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestTheStatusOfASubscriberHasTheTimeOfItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simtest.Pods()
		inf := newInformer(t, s, podOptions{})
		slow := subscribe(t, inf, podHandler{OnAdd: func(*corev1.Pod, bool) { <-time.After(time.Second) }}, podSub{Name: "slow"})
		fast := subscribe(t, inf, podHandler{}, podSub{Name: "fast"})
		start(t, inf)
		for _, key := range []string{"a/1", "a/2", "a/3"} {
			s.Set(key)
		}
		simtest.Advance(time.Hour)
		simtest.Want(t, "busy", []time.Duration{slow.Status().Busy, fast.Status().Busy}, []time.Duration{3 * time.Second, 0})
	})
}

// TestALiveStatusHasTheFirstList reads the status while the first list is applied. Subscribers make
// a status take long, so that the list is often applied in the middle of one.
func TestALiveStatusHasTheFirstList(t *testing.T) {
	item := simtest.ItemOf(benchPod(1, 1))
	for range soak.Rounds(20) {
		list := make(chan struct{})
		inf := newInformer(t, reflector.SourceFuncs[*corev1.Pod]{
			ListFunc: func(_ context.Context, _ object.ListOptions, _ *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
				<-list
				return object.Page{Version: "1"}, sink(item)
			},
			WatchFunc: func(ctx context.Context, _ object.WatchOptions, _ *object.Intake[*corev1.Pod]) (object.Stream[*corev1.Pod], error) {
				return &tap{&faucet{}, ctx}, nil
			},
		}, podOptions{})
		for range 500 {
			subscribe(t, inf, podHandler{}, podSub{})
		}
		stop := start(t, inf)
		inf.Status()
		go close(list)
		st := inf.Status()
		for ; !st.Live(); st = inf.Status() {
		}
		if st.Store.Objects != 1 {
			t.Fatalf("a live status has %d objects, want 1", st.Store.Objects)
		}
		stop()
	}
}
