package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/clientgo"
)

// start runs an informer until the test ends, and waits until it rests.
func start(t *testing.T, inf cache.SharedInformer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { inf.RunWithContext(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

func listen(t *testing.T, inf cache.SharedInformer) *handler {
	t.Helper()
	h := &handler{}
	var err error
	if h.reg, err = inf.AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	return h
}

func wantLines(t *testing.T, h *handler, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := h.take(); !slices.Equal(got, want) {
		t.Errorf("received:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestANewUIDIsAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(true)
		w.put("a1", false)
		inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
		h := listen(t, inf)
		start(t, inf)
		wantLines(t, h, "ns1/a1: add 00000001-2222-4333-8444-555555555555@11 on node-2 initial=true")
		w.put("a1", true)
		wantLines(t, h, "ns1/a1: update 00000001-2222-4333-8444-555555555555@11 on node-2 to 00000002-2222-4333-8444-555555555555@12 on node-0")
	})
}

func TestARelistIsAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		w.put("a1", false)
		inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
		h := listen(t, inf)
		start(t, inf)
		h.take()
		w.expire(true)
		<-time.After(time.Minute)
		wantLines(t, h, "ns1/a1: update 00000001-2222-4333-8444-555555555555@11 on node-2 to 00000001-2222-4333-8444-555555555555@11 on node-2")
		if w.lists() != 2 {
			t.Errorf("%d lists, want 2", w.lists())
		}
	})
}

func TestAPanickingHandlerPausesAndLosesOneEvent(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(true)
		w.put("a1", false)
		w.put("b1", false)
		inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
		var calls recording
		reg, err := inf.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			calls.add("", "%s", obj.(*corev1.Pod).Name)
			if obj.(*corev1.Pod).Name == "a1" {
				panic("on purpose")
			}
		}}, cache.HandlerOptions{Logger: &klog.Logger{}})
		if err != nil {
			t.Fatal(err)
		}
		other := listen(t, inf)
		start(t, inf)
		if got := other.take(); len(got) != 2 || !other.reg.HasSynced() {
			t.Errorf("the other handler received %q, synced %v", got, other.reg.HasSynced())
		}
		if got := calls.take(); len(got) != 1 {
			t.Errorf("received %q at once, want one", got)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := calls.take(); len(got) != 1 {
			t.Errorf("received %q after a second, want one", got)
		}
		if reg.HasSynced() {
			t.Error("the registration of a handler that panicked has synced")
		}
	})
}

type named struct{}

func (named) OnAdd(any, bool)   {}
func (named) OnUpdate(any, any) {}
func (named) OnDelete(any)      {}

func onDelete(any) {}

func TestHandlersAreNamedAsInClientGo(t *testing.T) {
	w := newPodServer(false)
	theirs, ours := cache.NewSharedInformer(w, &corev1.Pod{}, 0), clientgo.NewSharedInformer(w, &corev1.Pod{}, 0)
	if a, b := theirs.HasSyncedChecker().Name(), ours.HasSyncedChecker().Name(); a != b {
		t.Errorf("client-go calls it %q, ours %q", a, b)
	}
	for _, h := range []cache.ResourceEventHandler{
		named{}, &named{}, (*named)(nil), cache.ResourceEventHandlerFuncs{}, &cache.ResourceEventHandlerFuncs{DeleteFunc: onDelete},
		cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}, DeleteFunc: func(any) {}},
		cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}, DeleteFunc: onDelete},
		cache.ResourceEventHandlerDetailedFuncs{DeleteFunc: onDelete},
		cache.FilteringResourceEventHandler{Handler: named{}}, struct{ named }{},
	} {
		a, _ := theirs.AddEventHandler(h)
		b, _ := ours.AddEventHandler(h)
		if x, y := a.HasSyncedChecker().Name(), b.HasSyncedChecker().Name(); x != y {
			t.Errorf("%T: client-go calls it %q, ours %q", h, x, y)
		}
	}
}

// shutDown is cache.ShutDownEventHandler, which client-go has since v0.37.
func shutDown(inf cache.SharedInformer, handle cache.ResourceEventHandlerRegistration) error {
	if err := inf.RemoveEventHandler(handle); err != nil {
		return err
	}
	<-handle.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
	return nil
}

func TestShutDownEventHandlerWaitsForTheCallAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(true)
		w.put("a1", false)
		inf := clientgo.NewSharedInformer(w, &corev1.Pod{}, 0)
		early := listen(t, inf)
		if err := shutDown(inf, early.reg); err != nil { // before it runs
			t.Fatal(err)
		}
		block := make(chan struct{})
		reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-block }})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, inf)
		down := make(chan error)
		go func() { down <- shutDown(inf, reg) }()
		synctest.Wait()
		select {
		case <-down:
			t.Error("it did not wait")
		default:
		}
		close(block)
		if err := <-down; err != nil {
			t.Error(err)
		}
		wantLines(t, early)
		stop()
		if err := errors.Join(inf.RemoveEventHandler(reg), shutDown(inf, reg)); err != nil {
			t.Errorf("once more, after the end: %v", err)
		}
		foreign, _ := cache.NewSharedInformer(w, &corev1.Pod{}, 0).AddEventHandler(named{})
		if inf.RemoveEventHandler(foreign) == nil {
			t.Error("a registration of client-go's was removed")
		}
	})
}

func TestHandlersMayComeAndGoFromHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(true)
		w.put("a1", false)
		inf := clientgo.NewSharedInformer(w, &corev1.Pod{}, 0)
		second := &handler{}
		var first cache.ResourceEventHandlerRegistration
		first, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			second.reg, _ = inf.AddEventHandler(second)
			if err := inf.RemoveEventHandler(first); err != nil {
				t.Error(err)
			}
		}})
		start(t, inf)
		w.put("b1", false)
		wantLines(t, second, "ns1/a1: add 00000001-2222-4333-8444-555555555555@11 on node-2 initial=true", "ns1/b1: add 00000002-2222-4333-8444-555555555555@12 on node-0 initial=false")
	})
}

func TestTheWatchErrorHandlerHearsWhyAndOfWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		w.listErrs = 1
		inf := clientgo.NewSharedIndexInformerWithOptions(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "the pods"})
		type key struct{}
		var got error
		err := inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			got = fmt.Errorf("%v %s %w", ctx.Value(key{}), r.TypeDescription(), err)
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			inf.RunWithContext(ctx)
		}()
		synctest.Wait()
		if !apierrors.IsForbidden(got) || !strings.HasPrefix(got.Error(), "mine the pods failed to list the pods: ") || inf.HasSynced() {
			t.Errorf("got %v, synced %v", got, inf.HasSynced())
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if !inf.HasSynced() || inf.SetWatchErrorHandler(nil) == nil || inf.SetTransform(nil) == nil {
			t.Error("not synced after the list was allowed, or it can be changed while it runs")
		}
		cancel()
		<-done
		inf.Run(nil) // says that it ran before, and returns
	})
}

// endless is a server whose streaming lists never end.
type endless struct{ *podServer }

func (e endless) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return watch.NewFake(), nil
	}
	return e.podServer.Watch(opts)
}

func TestW05_AStreamingListWithoutItsEndIsAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(true)
		w.put("a1", false)
		inf := clientgo.NewSharedInformer(endless{w}, &corev1.Pod{}, 0)
		h := listen(t, inf)
		start(t, inf)
		if inf.HasSynced() {
			t.Fatal("synced by nothing")
		}
		<-time.After(31 * time.Second)
		wantLines(t, h, "ns1/a1: add 00000001-2222-4333-8444-555555555555@11 on node-2 initial=true")
		w.put("a1", false)
		wantLines(t, h, "ns1/a1: update 00000001-2222-4333-8444-555555555555@11 on node-2 to 00000001-2222-4333-8444-555555555555@12 on node-0")
	})
}

func TestATransformMayRenameAndOneItFailsOnHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		w.put("a1", false)
		w.put("bad1", false)
		inf := clientgo.NewSharedInformer(w, &corev1.Pod{}, 0)
		err := inf.SetTransform(func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			if p.Name == "bad1" {
				return nil, errors.New("no")
			}
			p.Name = strings.ToUpper(p.Name)
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h := listen(t, inf)
		start(t, inf)
		wantLines(t, h, "ns1/A1: add 00000001-2222-4333-8444-555555555555@11 on node-2 initial=true")
		if _, ok, _ := inf.GetStore().GetByKey("ns1/A1"); !ok || !inf.HasSynced() {
			t.Error("it is not held under its new name, or the informer has not synced")
		}
		w.put("a1", false)
		w.delete("a1")
		wantLines(t, h, "ns1/A1: update 00000001-2222-4333-8444-555555555555@11 on node-2 to 00000001-2222-4333-8444-555555555555@13 on node-1", "ns1/A1: delete 00000001-2222-4333-8444-555555555555@14 on node-1")
	})
}

func TestAnIndexFunctionThatFailsPanicsInAWriteOfTheProgramOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(obj any) ([]string, error) {
			if p := obj.(*corev1.Pod); p.Name == "bad1" {
				return nil, errors.New("no")
			}
			return []string{"x"}, nil
		}
		store := clientgo.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{"x": bad}).GetIndexer()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "bad1"}}
		const want = `unable to calculate an index entry for key "ns1/bad1" on index "x": no`
		for name, write := range map[string]func(){
			"Add":     func() { _ = store.Add(pod) },
			"Replace": func() { _ = store.Replace([]any{pod}, "1") },
			"Transaction": func() {
				store.(cache.TransactionStore).Transaction(cache.Transaction{Type: cache.TransactionTypeAdd, Object: pod})
			},
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); got != want {
						t.Errorf("%s: panicked with %s\nwant %s", name, got, want)
					}
				}()
				write()
			}()
		}

		w := newPodServer(false)
		w.put("bad1", false)
		w.put("a1", false)
		inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{"x": bad})
		start(t, inf)
		keys, err := inf.GetIndexer().IndexKeys("x", "x")
		if err != nil || !slices.Equal(keys, []string{"ns1/a1"}) || len(inf.GetStore().List()) != 2 {
			t.Errorf("indexed %q, %v; held %d", keys, err, len(inf.GetStore().List()))
		}
	})
}

func TestAFakeClientsetWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(node string) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "1"}}
			p.Spec.NodeName = node
			return p
		}
		clients := fake.NewClientset(pod("0"))
		pods := clients.CoreV1().Pods("ns")
		lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return pods.List(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return pods.Watch(ctx, opts)
			},
		}, clients)
		inf := clientgo.NewSharedInformer(lw, &corev1.Pod{}, 0)
		var calls recording
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { calls.add("", "add %s", obj.(*corev1.Pod).Spec.NodeName) },
			UpdateFunc: func(_, obj any) { calls.add("", "update %s", obj.(*corev1.Pod).Spec.NodeName) },
			DeleteFunc: func(any) { calls.add("", "delete") },
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, inf)
		// The versions do not move: every event counts all the same.
		for _, node := range []string{"1", "2"} {
			if _, err := pods.Update(t.Context(), pod(node), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{": add 0", ": update 1", ": update 2", ": delete"}
		if got := calls.take(); !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
	})
}
