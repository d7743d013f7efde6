package informer_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// reborn gives a pod another UID under its name, as one event.
func reborn(p *corev1.Pod) { p.UID += "'" }

// Each line is what a subscriber is called for, verbatim and not.
func TestVerbatimReportsWhatTheSourceSends(t *testing.T) {
	for _, verbatim := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := newWorld("shop/a", "shop/b")
			inf := newInformer(t, w, podOptions{Verbatim: verbatim})
			var d diary
			subscribe(t, inf, d.handler(), podSub{EveryChange: true})
			start(t, inf)
			either := func(what string, news, all []string) {
				t.Helper()
				synctest.Wait()
				if verbatim {
					news = all
				}
				want(t, fmt.Sprintf("%s, verbatim %v", what, verbatim), d.read(), news)
			}
			list := []string{"add! shop/a@101", "add! shop/b@102"}
			either("list", list, list)
			w.set("shop/a", reborn)
			either("another UID", []string{"delete? shop/a@101", "add shop/a@103"}, []string{"update shop/a@101>103"})
			inf.Edit(func(s *store.Store[*corev1.Pod]) { s.Delete(object.RawKey("shop/b")) })
			w.remove("shop/b")
			either("deletion of what is not held", nil, []string{"delete shop/b@104"})
			w.set("shop/c")
			either("addition", []string{"add shop/c@105"}, []string{"add shop/c@105"})
			inf.Edit(func(s *store.Store[*corev1.Pod]) {
				if err := s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d", UID: "mine", ResourceVersion: "999"}}); err != nil {
					t.Error(err)
				}
			})
			w.edit("shop/c", reborn) // of which only the list knows
			w.forget()
			pass(time.Minute)
			either("relist", []string{"delete? shop/c@105", "add shop/c@105", "delete? shop/d@999"},
				[]string{"delete? shop/d@999", "update shop/a@103>103", "update shop/c@105>105"})
		})
	}
}

// A subscriber from now on is not called for what is there, also if it was put there before Run; a
// resync replays the state to the one subscriber that it is for.
func TestH09_ResyncOfOneSubscriberAndSubscribersFromNowOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld("shop/a")
		inf := newInformer(t, w, podOptions{Verbatim: true})
		inf.Edit(func(s *store.Store[*corev1.Pod]) {
			if err := s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "7"}}); err != nil {
				t.Error(err)
			}
		})
		var early, all, late, loop diary
		subscribe(t, inf, early.handler(), podSub{FromNow: true, EveryChange: true})
		resynced := all.handler()
		resynced.OnResync = func(p *corev1.Pod) { all.write("resync %s@%s", keyOf(p), p.ResourceVersion) }
		sub := subscribe(t, inf, resynced, podSub{EveryChange: true})
		start(t, inf)
		synctest.Wait()
		lateSub := subscribe(t, inf, late.handler(), podSub{FromNow: true})
		synctest.Wait()
		if !closed(lateSub.Synced()) || lateSub.Status().Lag != 0 {
			t.Errorf("a subscriber from now on has not synced: %+v", lateSub.Status())
		}
		go func() {
			for e := range inf.Events(t.Context(), podSub{FromNow: true}) {
				loop.write("%v %s@%s", e.Kind, e.Key, e.Version)
			}
		}()
		synctest.Wait()
		sub.Resync()
		sub.Resync() // serves for both
		synctest.Wait()
		w.set("shop/a")
		synctest.Wait()
		want(t, "early", early.read(), []string{"update shop/a@7>101", "update shop/a@101>102"})
		want(t, "all", all.read(), []string{"add! shop/a@7", "update shop/a@7>101", "resync shop/a@101", "update shop/a@101>102"})
		want(t, "late", late.read(), []string{"update shop/a@101>102"})
		want(t, "loop", loop.read(), []string{"Updated shop/a@102"})
	})
}

// Through real bytes: a slow subscriber of every change, lists of objects that are held, and the
// end of Run in the middle of its backlog.
func TestH02_VerbatimThroughTheWire(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{AnyNamespace: true})
		client, err := wire.New(server.MemoryConfig(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		src, err := wire.For(client, wire.MustOf[*corev1.Pod]()).Source(object.Selection{}, wire.SourceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod := func(name string, labels map[string]string) *corev1.Pod {
			return &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels},
			}
		}
		create := func(name string) {
			if _, err := server.Create(pod(name, nil)); err != nil {
				t.Fatal(err)
			}
		}
		create("a")
		create("b")
		inf := newInformer(t, src, podOptions{Verbatim: true, Log: 4})
		gate := make(chan struct{})
		calls, same := []string{}, 0
		slow := func(kind string, p *corev1.Pod) {
			<-gate
			calls = append(calls, kind+" "+p.Name)
		}
		sub := subscribe(t, inf, informer.Handler[*corev1.Pod]{
			OnAdd: func(p *corev1.Pod, _ bool) { slow("add", p) },
			OnUpdate: func(old, p *corev1.Pod) {
				slow("update", p)
				if old == p {
					same++
				}
			},
			OnDelete: func(p *corev1.Pod, unknown bool) { slow(fmt.Sprint("delete", unknown), p) },
		}, podSub{EveryChange: true})
		stop := start(t, inf)
		pass(time.Second)
		relist := func(missed string) {
			server.Cut("pods")
			create(missed) // or the watch could go on
			server.Compact(0)
			pass(2 * time.Minute)
		}
		relist("x")
		relist("y")
		create("c")
		pass(time.Second)
		close(gate)
		synctest.Wait()
		const all = "add a, add b, update a, update b, add x, update a, update b, update x, add y, add c"
		if got := strings.Join(calls, ", "); got != all || same != 5 {
			t.Errorf("called for %s; %d updates to the very object\nwant %s; 5", got, same, all)
		}
		gate = make(chan struct{})
		relist("z")
		go stop()
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if !closed(sub.Done()) || !closed(inf.Stopped()) || len(calls) != 11 {
			t.Errorf("%d calls, want one more for the call that was under way", len(calls))
		}
	})
}
