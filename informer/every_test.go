package informer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// blocked is a handler that records its calls once a gate is open.
func blocked(r *simtest.Recorder, gate <-chan struct{}) podHandler {
	h := r.PodHandler()
	return podHandler{
		OnAdd:    func(p *corev1.Pod, initial bool) { <-gate; h.OnAdd(p, initial) },
		OnUpdate: func(old, p *corev1.Pod) { <-gate; h.OnUpdate(old, p) },
		OnDelete: func(p *corev1.Pod, unknown bool) { <-gate; h.OnDelete(p, unknown) },
	}
}

// A subscriber of every change is blocked while far more happens than the log keeps, a list
// among it; another one beside it that did not ask for that is caught up as ever.
func TestH02_EveryChangeIsDeliveredToABlockedSubscriber(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{Log: 4})
		gate := make(chan struct{})
		var every, outcome simtest.Recorder
		slow := subscribe(t, inf, blocked(&every, gate), podSub{Name: "every", EveryChange: true})
		folded := subscribe(t, inf, blocked(&outcome, gate), podSub{Name: "outcome"})
		stop := start(t, inf)
		synctest.Wait()
		expect := []string{"add! shop/a@101", "add! shop/b@102"}
		at := "101"
		for range 50 {
			v := at
			at = srv.Set("shop/a").ResourceVersion
			synctest.Wait()
			expect = append(expect, fmt.Sprintf("update shop/a@%s>%s", v, at))
		}
		gone := srv.Delete("shop/b").ResourceVersion
		expect = append(expect, "delete shop/b@"+gone)
		synctest.Wait()
		born := srv.Set("shop/b").ResourceVersion
		expect = append(expect, "add shop/b@"+born)
		synctest.Wait()

		// What a list shows for the first time is one change.
		srv.Mute()
		srv.Set("shop/a")
		last := srv.Set("shop/a").ResourceVersion
		srv.Expire()
		simtest.Advance(time.Minute)
		expect = append(expect, fmt.Sprintf("update shop/a@%s>%s", at, last))

		if n := inf.Status().Logged; n != len(expect) {
			t.Errorf("%d changes are kept, want %d", n, len(expect))
		}
		if st := slow.Status(); st.Lag != len(expect) || st.CaughtUp != 0 {
			t.Errorf("lag %d, caught up %d times; want %d and none", st.Lag, st.CaughtUp, len(expect))
		}
		close(gate)
		synctest.Wait()
		simtest.Want(t, "every change", every.Take(), expect)
		if st := folded.Status(); st.CaughtUp == 0 || len(outcome.Take()) >= len(expect) {
			t.Errorf("the other subscriber was caught up %d times", st.CaughtUp)
		}
		if st := inf.Status(); slow.Status().Lag != 0 || st.Logged != 0 || st.Store.Retained != 0 {
			t.Errorf("at the end: lag %d, %d changes and %d states kept", slow.Status().Lag, st.Logged, st.Store.Retained)
		}
		stop()
	})
}

// Removal and the end of Run drop the backlog, and neither waits for more than the call that
// is under way.
func TestH02_ABacklogOfEveryChangeEndsWithItsSubscription(t *testing.T) {
	for _, how := range []string{"removal", "shutdown"} {
		t.Run(how, func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) {
				srv := simtest.Pods("shop/a")
				inf := newInformer(t, srv.Source(via), podOptions{Log: 4})
				gate := make(chan struct{})
				var d simtest.Recorder
				sub := subscribe(t, inf, blocked(&d, gate), podSub{Name: "every", EveryChange: true})
				stop := start(t, inf)
				for range 40 {
					srv.Set("shop/a")
					synctest.Wait()
				}
				if how == "removal" {
					sub.Remove()
				} else {
					go stop()
				}
				synctest.Wait()
				if closed(sub.Done()) {
					t.Error("done while a call is under way")
				}
				close(gate)
				synctest.Wait()
				if !closed(sub.Done()) {
					t.Error("not done after the last call")
				}
				if lines := d.Take(); len(lines) != 1 {
					t.Errorf("%d calls, want the one that was under way: %v", len(lines), lines)
				}
				if st := inf.Status(); st.Store.Retained != 0 {
					t.Errorf("%d states are kept for a subscription that has ended", st.Store.Retained)
				}
				stop()
			})
		})
	}
}

// A resync of a subscriber with a backlog comes after the changes before it, and shows the
// state that these lead to. One that comes late begins with the state of its time.
func TestH09_EveryChangeComesInOrderWithResyncsAndLateSubscribers(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{Log: 4})
		gate := make(chan struct{})
		var early, late simtest.Recorder
		subscribe(t, inf, blocked(&early, gate), podSub{Name: "early", EveryChange: true, Resync: time.Minute})
		start(t, inf)
		synctest.Wait()
		for range 20 {
			srv.Set("shop/a") // 102 to 121
			synctest.Wait()
		}
		subscribe(t, inf, blocked(&late, gate), podSub{Name: "late", EveryChange: true})
		for range 20 {
			srv.Set("shop/a") // 122 to 141
			synctest.Wait()
		}
		simtest.Advance(2*time.Minute - 1)
		close(gate)
		synctest.Wait()
		calls := early.Take()
		if n := len(calls); n != 42 || calls[n-1] != "update shop/a@141>141" || calls[n-2] != "update shop/a@140>141" {
			t.Errorf("%d calls, the last %v", n, calls[max(0, n-2):])
		}
		calls = late.Take()
		if n := len(calls); n != 21 || calls[0] != "add! shop/a@121" || calls[1] != "update shop/a@121>122" {
			t.Errorf("%d calls, the first %v", n, calls[:min(2, n)])
		}
	})
}

// Every form of subscription has the mode.
func TestEveryChangeIsAnOptionOfEveryFormOfSubscription(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{Log: 2})
		gate := make(chan struct{})
		var batches, loop []string
		line := func(e podEvent) string { return fmt.Sprint(e.Kind, " ", e.New().ResourceVersion) }
		opts := podSub{EveryChange: true}
		if _, err := inf.SubscribeBatch(func(_ context.Context, events []podEvent) {
			<-gate
			for _, e := range events {
				batches = append(batches, line(e))
			}
		}, opts); err != nil {
			t.Fatal(err)
		}
		stop := start(t, inf)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range inf.Events(t.Context(), opts) {
				<-gate
				loop = append(loop, line(e))
			}
		}()
		synctest.Wait()
		for range 30 {
			srv.Set("shop/a")
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		stop()
		<-ended
		if len(loop) != 31 || !slices.Equal(loop, batches) {
			t.Errorf("a loop was given %d changes and a batch %d, want 31:\n%s", len(loop), len(batches), strings.Join(loop, "\n"))
		}
	})
}
