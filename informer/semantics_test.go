package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestH01_LateHandlerGetsTheStateAndThenTheChanges(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{})
		var early, late simtest.Recorder
		earlySub := subscribe(t, inf, early.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		simtest.Want(t, "early", early.Take(), []string{"add! shop/a@101", "add! shop/b@102"})
		srv.Set("shop/a")
		srv.Set("shop/c")
		srv.Delete("shop/b")
		synctest.Wait()
		simtest.Want(t, "early", early.Take(), []string{"update shop/a@101>103", "add shop/c@104", "delete shop/b@105"})

		release := make(chan struct{})
		h := late.PodHandler()
		add := h.OnAdd
		h.OnAdd = func(p *corev1.Pod, initial bool) {
			<-release
			add(p, initial)
		}
		lateSub := subscribe(t, inf, h, podSub{})
		srv.Set("shop/a")
		srv.Set("shop/d")
		synctest.Wait()
		if closed(lateSub.Synced()) || !closed(earlySub.Synced()) {
			t.Error("the late handler is synced before its adds were handled, or the early one is not")
		}
		close(release)
		synctest.Wait()
		simtest.Want(t, "late", late.Take(), []string{
			"add! shop/a@103", "add! shop/c@104", "update shop/a@103>106", "add shop/d@107"})
		if !closed(lateSub.Synced()) {
			t.Error("the late handler is not synced")
		}
	})
}

func TestH01_HandlerOfAnEmptyResourceIsSynced(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		inf := newInformer(t, simtest.Pods().Source(via), podOptions{})
		told := 0
		early := subscribe(t, inf, podHandler{}, podSub{OnSynced: func() { told++ }})
		if closed(early.Synced()) {
			t.Error("synced before Run")
		}
		start(t, inf)
		synctest.Wait()
		late := subscribe(t, inf, podHandler{}, podSub{})
		synctest.Wait()
		if !closed(early.Synced()) || !closed(late.Synced()) || told != 1 {
			t.Errorf("early %v, late %v, told %d times", closed(early.Synced()), closed(late.Synced()), told)
		}
	})
}

func TestH02_ABlockedHandlerDelaysNoOtherAndItsBacklogIsBoundedByKeys(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		const keys, rounds = 10, 20
		srv := simtest.Pods()
		inf := newInformer(t, srv.Source(via), podOptions{Log: 16})
		var quick, slow simtest.Recorder
		block := make(chan struct{})
		h := slow.PodHandler()
		add := h.OnAdd
		h.OnAdd = func(p *corev1.Pod, initial bool) {
			<-block
			add(p, initial)
		}
		slowSub := subscribe(t, inf, h, podSub{Name: "slow"})
		quickSub := subscribe(t, inf, quick.PodHandler(), podSub{Name: "quick"})
		start(t, inf)
		synctest.Wait()
		for i := range keys * rounds {
			srv.Set(fmt.Sprint("shop/", i%keys))
			synctest.Wait()
		}
		if got := len(quick.Take()); got != keys*rounds {
			t.Errorf("the quick handler was told %d changes, want all %d", got, keys*rounds)
		}
		st := inf.Status()
		if st.Store.Retained > 2*keys || st.Logged > 16 {
			t.Errorf("%d versions and %d changes are kept for a blocked handler, with %d keys", st.Store.Retained, st.Logged, keys)
		}
		simtest.Advance(time.Minute)
		if st := slowSub.Status(); st.Lag != keys*rounds || st.LagTime < time.Minute {
			t.Errorf("lag %d, %v; want %d, a minute or more", st.Lag, st.LagTime, keys*rounds)
		}
		if st := quickSub.Status(); st.Lag != 0 || st.CaughtUp != 0 {
			t.Errorf("the quick handler: %+v", st)
		}
		close(block)
		synctest.Wait()
		// It had one segment of the log, and then the rest of the keys' changes at once.
		if got := len(slow.Take()); got > 16+2*keys {
			t.Errorf("the slow handler was told %d changes, want no more than the keys make", got)
		}
		if st := slowSub.Status(); st.Lag != 0 || st.CaughtUp == 0 {
			t.Errorf("the slow handler at last: %+v", st)
		}
		if st := inf.Status(); st.Store.Retained != 0 || len(st.Store.Pins) != 0 || st.Logged != 0 {
			t.Errorf("kept when nobody is behind: %+v", st.Store)
		}
	})
}

// blockedUntil subscribes a handler that is stuck in its first call until release is
// called, so that what happens meanwhile is told as a difference.
func blockedUntil(t *testing.T, inf *podInformer, d *simtest.Recorder, opts podSub) (release func()) {
	gate := make(chan struct{})
	h := d.PodHandler()
	first := true
	add := h.OnAdd
	h.OnAdd = func(p *corev1.Pod, initial bool) {
		if first {
			first = false
			<-gate
		}
		add(p, initial)
	}
	subscribe(t, inf, h, opts)
	return func() { close(gate) }
}

func TestH03_DifferenceFoldsWhatWasMissed(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/first", "shop/deleted", "shop/reborn", "shop/updated", "shop/untouched")
		inf := newInformer(t, srv.Source(via), podOptions{Log: 1})
		start(t, inf)
		synctest.Wait()
		var d simtest.Recorder
		release := blockedUntil(t, inf, &d, podSub{})
		synctest.Wait()
		do := func(f func()) {
			f()
			synctest.Wait() // a batch for each
		}
		// Its place in the log, which it has until the first call ends, is used up by these.
		do(func() { srv.Set("shop/first") })
		do(func() { srv.Set("shop/first") })
		do(func() { srv.Set("shop/updated") })
		do(func() { srv.Set("shop/updated") })
		do(func() { srv.Set("shop/added") })
		do(func() { srv.Set("shop/added") })
		do(func() { srv.Set("shop/brief") })
		do(func() { srv.Delete("shop/brief") })
		do(func() { srv.Delete("shop/deleted") })
		do(func() { srv.Delete("shop/reborn") })
		do(func() { srv.Set("shop/reborn") })
		release()
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{
			"add! shop/deleted@102", "add! shop/first@101", "add! shop/reborn@103", "add! shop/untouched@105", "add! shop/updated@104",
			"delete? shop/deleted@102",
			"update shop/first@101>107",
			"delete? shop/reborn@103", "add shop/reborn@116",
			"update shop/updated@104>109",
			"add shop/added@111",
		})
	})
}

func TestH04_PanicCostsOneEventAndIsReportedByName(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/bad", "shop/c")
		var reported []*informer.PanicError
		inf := newInformer(t, srv.Source(via), podOptions{OnPanic: func(e *informer.PanicError) { reported = append(reported, e) }})
		var d, other simtest.Recorder
		h := d.PodHandler()
		add := h.OnAdd
		h.OnAdd = func(p *corev1.Pod, initial bool) {
			if p.Name == "bad" {
				panic(errors.New("no such luck"))
			}
			add(p, initial)
		}
		sub := subscribe(t, inf, h, podSub{Name: "clumsy"})
		subscribe(t, inf, other.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add! shop/a@101", "add! shop/c@103"})
		simtest.Want(t, "the other", len(other.Take()), 3)
		if !closed(sub.Synced()) {
			t.Error("the panic held up the sync")
		}
		srv.Set("shop/bad")
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"update shop/bad@102>104"})
		if len(reported) != 1 || reported[0].Subscriber != "clumsy" || reported[0].Key.Name != "bad" ||
			!strings.Contains(string(reported[0].Stack), "semantics_test") {
			t.Errorf("reported: %v", reported)
		}
		if st := sub.Status(); st.Panics != 1 || st.LastPanic == nil {
			t.Errorf("status: %+v", st)
		}
	})
}

func TestH04_PanicOfAFilterABatchOrOnSynced(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		var d simtest.Recorder
		filtered := subscribe(t, inf, d.PodHandler(), podSub{Filter: func(p *corev1.Pod) bool {
			if p.Name == "a" {
				panic("a")
			}
			return true
		}})
		calls := 0
		batched, err := inf.SubscribeBatch(func(context.Context, []podEvent) {
			if calls++; calls == 1 {
				panic("the first")
			}
		}, podSub{OnSynced: func() { panic("synced") }})
		if err != nil {
			t.Fatal(err)
		}
		start(t, inf)
		synctest.Wait()
		srv.Set("shop/b")
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"add shop/b@102"})
		if filtered.Status().Panics != 1 || batched.Status().Panics != 2 || calls != 2 {
			t.Errorf("filter: %+v\nbatch: %+v", filtered.Status(), batched.Status())
		}
		if !closed(filtered.Synced()) || !closed(batched.Synced()) {
			t.Error("a panic held up the sync")
		}
	})
}

func TestH05_RemoveNeverWaitsAndNothingIsCalledAfterDone(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{})
		before := subscribe(t, inf, podHandler{OnAdd: func(*corev1.Pod, bool) { t.Error("called after Done") }}, podSub{})
		before.Remove()
		if !closed(before.Done()) {
			t.Error("removed before Run, but not done")
		}
		start(t, inf)
		synctest.Wait()

		calls := 0
		var self *informer.Subscription
		ready := make(chan struct{})
		self = subscribe(t, inf, podHandler{OnAdd: func(*corev1.Pod, bool) {
			<-ready
			calls++
			self.Remove()
		}}, podSub{})
		close(ready)
		synctest.Wait()
		if calls != 1 || !closed(self.Done()) {
			t.Errorf("%d calls of a handler that removed itself in the first, done %v", calls, closed(self.Done()))
		}
		self.Remove()
		self.Remove()

		gate := make(chan struct{})
		stuck := subscribe(t, inf, podHandler{OnAdd: func(*corev1.Pod, bool) { <-gate }}, podSub{})
		synctest.Wait()
		stuck.Remove() // returns, though the call does not
		synctest.Wait()
		if closed(stuck.Done()) {
			t.Error("done while a call is going on")
		}
		close(gate)
		<-stuck.Done()
		if len(inf.Status().Subscribers) != 0 {
			t.Errorf("left: %v", inf.Status().Subscribers)
		}
	})
}

func TestH06_WaitingForSyncReturnsTheCauses(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("good/a", "bad/b")
		srv.Refuse("bad", forbidden())
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"good", "bad"}})
		early, cancel := context.WithCancel(t.Context())
		cancel()
		var e *informer.NotSyncedError
		if err := inf.WaitSynced(early); !errors.As(err, &e) || len(e.Sources) != 2 {
			t.Errorf("before Run: %v", err)
		}
		start(t, inf)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := inf.WaitSynced(ctx)
		if !errors.As(err, &e) || len(e.Sources) != 1 || e.Sources[0].Scope != "bad" {
			t.Fatalf("error %v", err)
		}
		if !apierrors.IsForbidden(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the causes are lost: %v", err)
		}
		if text := err.Error(); !strings.Contains(text, "nobody may list them") || !strings.Contains(text, "BackingOff") {
			t.Errorf("text: %s", text)
		}
		if _, ok := inf.Get(object.RawKey("good/a")); !ok {
			t.Error("the broken source holds up the good one")
		}
		if closed(inf.Synced()) {
			t.Error("synced without a part of it")
		}
		srv.Refuse("bad", nil)
		if err := inf.WaitSynced(t.Context()); err != nil || !closed(inf.Synced()) {
			t.Errorf("after it was mended: %v", err)
		}
	})
}

func TestH07_StoppedAtAnyMomentItLeavesNothingBehind(t *testing.T) {
	for steps := range 12 {
		simtest.Each(t, func(t *testing.T, via simtest.Via) {
			srv := simtest.Pods("shop/a", "shop/b")
			inf := newInformer(t, srv.Source(via), podOptions{Log: 2, Pending: 2, Resync: time.Second, OnMutation: mustNotMutate(t)})
			var d simtest.Recorder
			subs := []*informer.Subscription{subscribe(t, inf, d.PodHandler(), podSub{})}
			stop := start(t, inf)
			for i := range steps {
				if i%2 == 0 {
					synctest.Wait()
				}
				switch i {
				case 1, 5:
					subs = append(subs, subscribe(t, inf, d.PodHandler(), podSub{}))
				case 3:
					for range 20 {
						srv.Set("shop/c")
					}
				case 7:
					srv.Expire()
				case 9:
					srv.Refuse("", forbidden())
					srv.Expire()
				}
			}
			stop()
			// A bubble does not end while a goroutine is left in it.
			for i, sub := range subs {
				if !closed(sub.Done()) {
					t.Errorf("after %d steps: subscriber %d is not done", steps, i)
				}
			}
			if err := inf.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already started") {
				t.Errorf("a second Run: %v", err)
			}
			if _, err := inf.Subscribe(podHandler{}, podSub{}); !errors.Is(err, informer.ErrStopped) {
				t.Errorf("subscribed after the end: %v", err)
			}
			for range inf.Events(t.Context(), podSub{}) {
				t.Error("an event after the end")
			}
			if st := inf.Status(); len(st.Store.Pins) > 0 || len(st.Subscribers) > 0 || !st.Stopped {
				t.Errorf("after %d steps: %+v", steps, st)
			}
		})
	}
}

func TestH07_WaitsEndWhenTheInformerStops(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		srv.Refuse("", forbidden())
		inf := newInformer(t, srv.Source(via), podOptions{})
		stop := start(t, inf)
		errs := make(chan error, 2)
		go func() { errs <- inf.WaitSynced(context.Background()) }()
		go func() { errs <- inf.WaitFor(context.Background(), "7") }()
		synctest.Wait()
		stop()
		for range 2 {
			if err := <-errs; !errors.Is(err, informer.ErrStopped) {
				t.Errorf("error %v", err)
			}
		}
	})
}
