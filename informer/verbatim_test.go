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
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// reborn gives a pod another UID under its name, as one event.
func reborn(p *corev1.Pod) { p.UID += "'" }

// Each line is what a subscriber is called for, verbatim and not.
func TestVerbatimReportsWhatTheSourceSends(t *testing.T) {
	for _, verbatim := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := simtest.Pods("shop/a", "shop/b")
			inf := newInformer(t, srv, podOptions{Verbatim: verbatim})
			var d simtest.Recorder
			subscribe(t, inf, d.PodHandler(), podSub{EveryChange: true})
			start(t, inf)
			either := func(what string, news, all []string) {
				t.Helper()
				synctest.Wait()
				if verbatim {
					news = all
				}
				simtest.Want(t, fmt.Sprintf("%s, verbatim %v", what, verbatim), d.Take(), news)
			}
			list := []string{"add! shop/a@101", "add! shop/b@102"}
			either("list", list, list)
			srv.Set("shop/a", reborn)
			either("another UID", []string{"delete? shop/a@101", "add shop/a@103"}, []string{"update shop/a@101>103"})
			inf.Edit(func(s *store.Store[*corev1.Pod]) { s.Delete(object.RawKey("shop/b")) })
			srv.Delete("shop/b")
			either("deletion of what is not held", nil, []string{"delete shop/b@104"})
			srv.Set("shop/c")
			either("addition", []string{"add shop/c@105"}, []string{"add shop/c@105"})
			inf.Edit(func(s *store.Store[*corev1.Pod]) {
				if err := s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d", UID: "mine", ResourceVersion: "999"}}); err != nil {
					t.Error(err)
				}
			})
			srv.Mute()
			srv.Set("shop/c", reborn) // which only the list shows
			srv.Expire()
			simtest.Advance(time.Minute)
			either("relist", []string{"delete? shop/c@105", "add shop/c@106", "delete? shop/d@999"},
				[]string{"delete? shop/d@999", "update shop/a@103>103", "update shop/c@105>106"})
		})
	}
}

// A subscriber from now on is not called for what is there, also if it was put there before Run; a
// resync replays the state to the one subscriber that it is for.
func TestH09_ResyncOfOneSubscriberAndSubscribersFromNowOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv, podOptions{Verbatim: true})
		inf.Edit(func(s *store.Store[*corev1.Pod]) {
			if err := s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "7"}}); err != nil {
				t.Error(err)
			}
		})
		var early, all, late, loop simtest.Recorder
		subscribe(t, inf, early.PodHandler(), podSub{FromNow: true, EveryChange: true})
		resynced := all.PodHandler()
		resynced.OnResync = func(p *corev1.Pod) { all.Add("resync %s@%s", simtest.KeyOf(p), p.ResourceVersion) }
		sub := subscribe(t, inf, resynced, podSub{EveryChange: true})
		start(t, inf)
		synctest.Wait()
		lateSub := subscribe(t, inf, late.PodHandler(), podSub{FromNow: true})
		synctest.Wait()
		if !closed(lateSub.Synced()) || lateSub.Status().Lag != 0 {
			t.Errorf("a subscriber from now on has not synced: %+v", lateSub.Status())
		}
		go func() {
			for e := range inf.Events(t.Context(), podSub{FromNow: true}) {
				loop.Add("%v %s@%s", e.Kind, e.Key, e.Version)
			}
		}()
		synctest.Wait()
		sub.Resync()
		sub.Resync() // serves for both
		synctest.Wait()
		srv.Set("shop/a")
		synctest.Wait()
		simtest.Want(t, "early", early.Take(), []string{"update shop/a@7>101", "update shop/a@101>102"})
		simtest.Want(t, "all", all.Take(), []string{"add! shop/a@7", "update shop/a@7>101", "resync shop/a@101", "update shop/a@101>102"})
		simtest.Want(t, "late", late.Take(), []string{"update shop/a@101>102"})
		simtest.Want(t, "loop", loop.Take(), []string{"Updated shop/a@102"})
	})
}

// Through real bytes: a slow subscriber of every change, lists of objects that are held, and the
// end of Run in the middle of its backlog.
func TestH02_VerbatimThroughTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{AnyNamespace: true})
		client, err := wire.New(server.MemoryConfig(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		src, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.Pod]()), object.Selection{}, stream.Options{})
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
		simtest.Advance(time.Second)
		relist := func(missed string) {
			server.Cut("pods")
			create(missed) // or the watch could go on
			server.Compact(0)
			simtest.Advance(2 * time.Minute)
		}
		relist("x")
		relist("y")
		create("c")
		simtest.Advance(time.Second)
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
