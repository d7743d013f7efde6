package informer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

func TestEventsYieldTheStateAndThenTheChanges(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		stop := start(t, inf)
		var d simtest.Recorder
		ctx, cancel := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() {
			for e := range inf.Events(ctx, podSub{Name: "loop", OnSynced: func() { d.Add("synced") }}) {
				d.Add("%v %v %s %v", e.Kind, e.Initial, e.New().ResourceVersion, e.Old() != nil)
			}
			d.Add("end")
		})
		loops.Go(func() { // leaves by itself
			for range inf.Events(context.Background(), podSub{}) {
				break
			}
		})
		loops.Go(func() { // until the informer stops
			for range inf.Events(context.Background(), podSub{Name: "last"}) {
			}
		})
		synctest.Wait()
		srv.Set("shop/a")
		srv.Delete("shop/a")
		synctest.Wait()
		simtest.Want(t, "subscribers", len(inf.Status().Subscribers), 2)
		cancel()
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{"Added true 101 false", "synced", "Updated false 102 true", "Deleted false 103 true", "end"})
		st := inf.Status().Subscribers
		if len(st) != 1 || st[0].Name != "last" {
			t.Errorf("left: %+v", st)
		}
		stop()
		loops.Wait()
	})
}

func TestBatchesGetManyChangesAtOnce(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a", "shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{})
		var sizes []int
		gate := make(chan struct{})
		var ctx context.Context
		_, err := inf.SubscribeBatch(func(c context.Context, events []podEvent) {
			ctx = c
			sizes = append(sizes, len(events))
			<-gate
		}, podSub{})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, inf)
		synctest.Wait()
		for range 5 {
			srv.Set("shop/a")
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		simtest.Want(t, "sizes", sizes, []int{2, 5})
		stop()
		if ctx.Err() == nil {
			t.Error("the context outlives Run")
		}
	})
}

func TestFilterTurnsUpdatesIntoAddsAndDeletes(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		srv.Set("shop/in", onNode("n1"))
		srv.Set("shop/out", onNode("n2"))
		inf := newInformer(t, srv.Source(via), podOptions{})
		var d simtest.Recorder
		subscribe(t, inf, d.PodHandler(), podSub{Filter: func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" }})
		start(t, inf)
		synctest.Wait()
		srv.Set("shop/in")                // 103
		srv.Set("shop/out")               // 104, not delivered
		srv.Set("shop/out", onNode("n1")) // 105, enters
		srv.Set("shop/in", onNode("n2"))  // 106, leaves
		srv.Delete("shop/in")             // 107, not delivered
		srv.Delete("shop/out")            // 108
		synctest.Wait()
		simtest.Want(t, "received", d.Take(), []string{
			"add! shop/in@101", "update shop/in@101>103", "add shop/out@105", "delete shop/in@103", "delete shop/out@108"})
	})
}

func TestOptionsThatCannotBeMetAreErrors(t *testing.T) {
	srv := simtest.Pods()
	for name, opts := range map[string]podOptions{
		"Log":                 {Log: -1},
		"Pending":             {Pending: -1},
		"Resync":              {Resync: -1},
		"Selection.Namespace": {Namespaces: []string{"a"}, Selection: object.Selection{Namespace: "b"}},
		"empty name":          {Namespaces: []string{""}},
		"Reflector has":       {Reflector: reflector.Options[*corev1.Pod]{Name: "x"}},
		"PageSize":            {Reflector: reflector.Options[*corev1.Pod]{SlowList: -1}},
	} {
		_, err := informer.New(srv, podMeta, opts)
		if err == nil || name != "PageSize" && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := informer.New(nil, podMeta, podOptions{}); err == nil {
		t.Error("no source")
	}
	if _, err := informer.New(srv, object.Accessor[*corev1.Pod]{}, podOptions{}); err == nil {
		t.Error("no accessor")
	}
}

func TestHandlerMaySubscribeOthersAndAskForAnything(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		var inner simtest.Recorder
		byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
		sub := subscribe(t, inf, podHandler{OnAdd: func(*corev1.Pod, bool) {
			subscribe(t, inf, inner.PodHandler(), podSub{})
			inf.AddIndex(byNode)
			_ = inf.Status().String()
			if err := inf.WaitFor(t.Context(), "101"); err != nil {
				t.Error(err)
			}
		}}, podSub{})
		start(t, inf)
		synctest.Wait()
		simtest.Want(t, "inner", inner.Take(), []string{"add! shop/a@101"})
		if !strings.Contains(sub.Status().Name, "subscribe_test.go:") && !strings.Contains(sub.Status().Name, "main_test.go:") {
			t.Errorf("the name is %q, want the call site", sub.Status().Name)
		}
		if text := inf.Status().String(); !strings.HasPrefix(text, "pods: live, 1 objects") {
			t.Errorf("status: %s", text)
		}
	})
}

// witness rebuilds the state from what it is told, and complains of what makes no sense.
type witness struct {
	t    *testing.T
	mu   sync.Mutex
	pods map[object.Key]*corev1.Pod
}

func (v *witness) hear(kind object.Kind, old, pod *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.pods[simtest.KeyOf(pod)]
	switch {
	case kind == object.Added && known == nil, kind == object.Updated && known == old && known != nil,
		kind == object.Synced && known == pod:
		v.pods[simtest.KeyOf(pod)] = pod
	case kind == object.Deleted && known != nil && known.UID == pod.UID:
		delete(v.pods, simtest.KeyOf(pod))
	default:
		v.t.Errorf("%v %s@%s, but have %v", kind, simtest.KeyOf(pod), pod.ResourceVersion, known)
	}
}

func (v *witness) batch(pause func()) func(context.Context, []podEvent) {
	return func(_ context.Context, events []podEvent) {
		for _, e := range events {
			v.hear(e.Kind, e.Old(), e.New())
			pause()
		}
	}
}

// TestH03_ConcurrentSubscribersEndWithTheStore runs it all at once: writers, relists,
// subscribers of all speeds that come and go, resyncs.
func TestH03_ConcurrentSubscribersEndWithTheStore(t *testing.T) {
	for seed := range uint64(soak.Rounds(2)) {
		simtest.Each(t, func(t *testing.T, via simtest.Via) {
			r := rand.New(rand.NewPCG(seed, 1))
			srv := simtest.Pods("shop/0")
			inf := newInformer(t, srv.Source(via), podOptions{Log: 1 + r.IntN(64), Pending: 1 + r.IntN(64)})
			var witnesses []*witness
			join := func(pause func()) *informer.Subscription {
				v := &witness{t: t, pods: map[object.Key]*corev1.Pod{}}
				witnesses = append(witnesses, v)
				sub, err := inf.SubscribeBatch(v.batch(pause), podSub{Resync: time.Duration(r.IntN(3)) * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return sub
			}
			quick := func() {}
			slow := func() { <-time.After(time.Millisecond) }
			join(quick)
			join(slow)
			start(t, inf)
			here := map[string]bool{"shop/0": true}
			for i := range 1000 {
				key := fmt.Sprint("shop/", r.IntN(30))
				switch n := r.IntN(100); {
				case n < 20 && here[key]:
					srv.Delete(key)
					delete(here, key)
				case n == 99:
					srv.Expire()
				case n == 98 && len(witnesses) < 12:
					join([]func(){quick, slow}[r.IntN(2)])
				case n == 97:
					join(slow).Remove()
					witnesses = witnesses[:len(witnesses)-1]
				case n > 90:
					<-time.After(time.Millisecond)
				default:
					srv.Set(key)
					here[key] = true
				}
				_ = i
			}
			simtest.Advance(5 * time.Minute)
			for i, v := range witnesses {
				v.mu.Lock()
				if len(v.pods) != len(here) {
					t.Errorf("seed %d: witness %d has %d objects, want %d", seed, i, len(v.pods), len(here))
				}
				for key := range here {
					k := object.RawKey(key)
					if p, _ := inf.Get(k); p == nil || v.pods[k] != p {
						t.Errorf("seed %d: witness %d has %v, the store %v", seed, i, v.pods[k], p)
					}
				}
				v.mu.Unlock()
			}
			if st := inf.Status(); st.Store.Retained > 0 && st.Logged > 0 {
				t.Errorf("kept for nobody: %+v", st.Store)
			}
		})
	}
}
