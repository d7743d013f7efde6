package clientgo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/clientgo"
)

// Random scenarios over client-go's NewIndexerInformer and ours: what the handler was called
// for, what the store holds and what the controller says is the same after every step.
func TestControllersAgreeWithClientGo(t *testing.T) {
	withoutErrorHandlers(t)
	for seed := range uint64(runs()) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			resync := time.Duration(seed%3) * 10 * time.Second
			var transform cache.TransformFunc
			if seed%4 == 1 { // of those that do not stream: D04
				transform = func(obj any) (any, error) {
					obj.(*corev1.Pod).Spec.NodeName += "!"
					return obj, nil
				}
			}
			var servers [2]*podServer
			var handlers [2]*handler
			var stores [2]cache.Indexer
			var controllers [2]cache.Controller
			for i := range 2 {
				servers[i], handlers[i] = newPodServer(seed%2 == 0), &handler{}
				servers[i].put("pod-0", false)
				//lint:ignore SA1019 the deprecated constructor has an adapter too
				make := cache.NewTransformingIndexerInformer
				if i == 1 {
					make = clientgo.NewTransformingIndexerInformer
				}
				stores[i], controllers[i] = make(servers[i], &corev1.Pod{}, resync, handlers[i], cache.Indexers{"node": byNode}, transform)
			}
			var trace []string
			compare := func(step string) {
				t.Helper()
				trace = append(trace, step)
				synctest.Wait()
				var states [2]map[string]any
				for i := range 2 {
					var held []string
					for _, obj := range stores[i].List() {
						_, text := podLine(obj)
						held = append(held, text)
					}
					slices.Sort(held)
					keys, err := stores[i].IndexKeys("node", "any")
					states[i] = map[string]any{
						"synced": controllers[i].HasSynced(), "last": controllers[i].LastSyncResourceVersion(),
						"calls": handlers[i].take(), "held": held, "index": fmt.Sprint(keys, err),
					}
				}
				if diff := cmp.Diff(states[0], states[1]); diff != "" {
					t.Fatalf("seed %d, after %q (-client-go +ours):\n%s", seed, trace, diff)
				}
			}
			compare("made")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for i := range 2 {
				running.Go(func() { controllers[i].RunWithContext(ctx) })
			}
			compare("run")
			for range 25 {
				name := fmt.Sprintf("pod-%d", rnd.IntN(6))
				step := rnd.IntN(10)
				if step >= 8 {
					<-time.After(2 * time.Second) // or the watch would be a very short one
				}
				recreated := rnd.IntN(4) == 0
				for _, w := range servers {
					switch {
					case step < 5:
						w.put(name, recreated)
					case step < 7 && slices.Contains(w.names(), name):
						w.delete(name)
					case step < 8:
						w.Bookmark()
					case step < 9:
						w.cut()
					case resync > 0:
						w.cut() // or the watch would outlast its timeout: D29
					default:
						w.locked(func() {
							w.expire(true)
							w.put(name, recreated)
							for i, name := range w.names() {
								if i%3 == 0 {
									w.delete(name)
								}
							}
							w.Compact()
						})
					}
				}
				if step == 9 {
					<-time.After(70 * time.Second)
				}
				compare(fmt.Sprint("step ", step, " ", name))
			}
			cancel()
			running.Wait()
			compare("stopped")
		})
	}
}

// A controller has synced when its handler was called for the initial state.
func TestAControllerHasSyncedWhenItsHandlerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		w.put("a1", false)
		gate := make(chan struct{})
		store, controller := clientgo.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: w, ObjectType: &corev1.Pod{}, MinWatchTimeout: time.Hour,
			Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-gate }},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { controller.Run(ctx.Done()) })
		synctest.Wait()
		if len(store.ListKeys()) != 1 || controller.HasSynced() {
			t.Errorf("holds %q, synced %v", store.ListKeys(), controller.HasSynced())
		}
		close(gate)
		<-controller.HasSyncedChecker().Done()
		if !controller.HasSynced() {
			t.Error("not synced")
		}
		cancel()
		running.Wait()
	})
}

// The program of client-go's workqueue example: an indexer, a controller and a queue.
func ExampleNewIndexerInformer() {
	pods := newPodServer(false)
	pods.put("web1", false)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	indexer, controller := clientgo.NewIndexerInformer(pods, &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				queue.Add(key)
			}
		},
	}, cache.Indexers{})
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { controller.Run(stop) })
	cache.WaitForCacheSync(stop, controller.HasSynced)
	key, _ := queue.Get()
	_, exists, err := indexer.GetByKey(key)
	fmt.Println(key, exists, err)
	queue.Done(key)
	queue.ShutDown()
	close(stop)
	running.Wait()
	// Output: ns1/web1 true <nil>
}
