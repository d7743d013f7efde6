package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	adapters "github.com/tarnproject/tarn/clientgo"
)

// adapterInformer is BenchmarkSharedIndexInformer: small pods, one of which changes at a
// time, with one handler and goroutines that list the namespace continuously.
func adapterInformer(l *lab) []Row {
	n := min(l.objects, 10_000)
	var rows []Row
	for _, readers := range []int{0, 10} {
		c, t := takeTurns(min(l.rounds, 5),
			func() sample { return changes(l, n, readers, cache.NewSharedIndexInformerWithOptions) },
			func() sample { return changes(l, n, readers, adapters.NewSharedIndexInformerWithOptions) })
		what := fmt.Sprintf("adapter, BenchmarkSharedIndexInformer: %s pods, %d readers, ", number(float64(n)), readers)
		wall := func(s []sample) *Figure { return perOp(s, Nanoseconds, func(s sample) float64 { return s.Wall }) }
		if readers == 0 {
			rows = append(rows,
				newRow("A7 "+what+"wall per change", wall(c), wall(t), faster(2)),
				newRow("+ "+what+"CPU per change, including making it", cpuEach(c), cpuEach(t)))
			continue
		}
		reads := func(s []sample) *Figure {
			return perOp(s, Nanoseconds, func(s sample) float64 { return s.Ops * s.Wall / s.Values["reads"] })
		}
		rows = append(rows,
			newRow("A8 "+what+"wall per change", wall(c), wall(t), faster(2)),
			newRow("A9 "+what+"wall per list", reads(c), reads(t), faster(2)))
	}
	return rows
}

type newInformer = func(cache.ListerWatcher, runtime.Object, cache.SharedIndexInformerOptions) cache.SharedIndexInformer

// changes creates an informer of n pods and changes them one by one for a turn.
func changes(l *lab, n, readers int, create newInformer) sample {
	const namespace = "bench"
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range n {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%020d", i)}})
	}
	watcher := apiwatch.NewFakeWithChanSize(1, false)
	informer := create(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return watchList(o, watcher)
		},
	}, &corev1.Pod{}, cache.SharedIndexInformerOptions{
		ResyncPeriod: time.Minute, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	<-informer.HasSyncedChecker().Done()

	const queued = 10
	slots := make(chan struct{}, queued)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) {
		select {
		case <-slots:
		default:
		}
	}})
	check(err)
	<-handler.HasSyncedChecker().Done()

	var reads atomic.Int64
	var readersRun sync.WaitGroup
	stop := make(chan struct{})
	for range readers {
		readersRun.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				check(cache.ListAllByNamespace(informer.GetIndexer(), namespace, labels.Everything(), func(any) {}))
				reads.Add(1)
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	change := func() {
		pod := list.Items[rng.IntN(n)]
		watcher.Modify(&pod)
		slots <- struct{}{}
	}
	for range 100 {
		change()
	}
	reads.Store(0)
	m, ops := job{}.begin(), 0
	for now()-m.wall < int64(10*l.turn) {
		change()
		ops++
	}
	s := m.end(ops)
	s.Values = map[string]float64{"reads": float64(reads.Load())}
	close(stop)
	readersRun.Wait()
	cancel()
	watcher.Stop()
	running.Wait()
	return s
}

// watchList rejects streaming lists, which the fake watcher does not support.
func watchList(o metav1.ListOptions, w apiwatch.Interface) (apiwatch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, fmt.Errorf("streaming lists are not supported")
	}
	return w, nil
}
