package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	adapters "github.com/tarnproject/tarn/clientgo"
)

// The adapters of package clientgo beside client-go: the workloads of client-go's own
// benchmarks, reimplemented.

// adapterQueue is BenchmarkQueue: a hundred keys, one after the other, in a new queue that is
// created before the timer starts; and the same in one queue.
func adapterQueue(l *lab) []Row {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	pass := func(q workqueue.TypedInterface[string], n int) {
		for i := range n {
			q.Add(keys[i%len(keys)])
			key, _ := q.Get()
			q.Done(key)
		}
	}
	fresh := func(create func() workqueue.TypedInterface[string]) sample {
		runtime.LockOSThread() // for threadTime
		defer runtime.UnlockOSThread()
		s := sample{}
		for range 2_000 {
			q := create()
			from := threadTime()
			pass(q, len(keys))
			s.CPU += float64(threadTime() - from)
			s.Ops += float64(len(keys))
			q.ShutDown()
		}
		return s
	}
	newTheirs := func() workqueue.TypedInterface[string] { return workqueue.NewTyped[string]() }
	newOurs := func() workqueue.TypedInterface[string] { return adapters.NewTypedQueue[string]() }
	f, g := takeTurns(l.rounds, func() sample { return fresh(newTheirs) }, func() sample { return fresh(newOurs) })
	freshTheirs, freshOurs := leastCPU(f), leastCPU(g)
	freshTheirs.Counted, freshOurs.Counted = false, false // allocations were not counted
	theirs, ours := newTheirs(), newOurs()
	defer theirs.ShutDown()
	defer ours.ShutDown()
	c, t := duel{clientGo: func(n int) { pass(theirs, n) }, tarn: func(n int) { pass(ours, n) }, least: true}.run(l)
	return []Row{
		newRow("A1 adapter, BenchmarkQueue: Add, Get, Done of 100 keys in a new queue", freshTheirs, freshOurs, faster(2)),
		newRow("+ adapter, queue: Add, Get, Done of 100 keys, queue reused", c, t),
	}
}

// adapterDelays is BenchmarkDelayingQueue_AddAfter: all keys are added with random delays and
// taken. The original has a fake clock and delays of minutes; here they are real and short, and
// the figure is CPU time.
func adapterDelays(l *lab) []Row {
	n := min(l.objects, 50_000)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	turn := func(q workqueue.TypedDelayingInterface[string]) sample {
		defer q.ShutDown()
		rng := rand.New(rand.NewPCG(1, 2))
		m := job{}.begin()
		for _, key := range keys {
			q.AddAfter(key, time.Duration(rng.Int64N(int64(300*time.Millisecond))))
		}
		for range keys {
			key, _ := q.Get()
			q.Done(key)
		}
		return m.end(n)
	}
	c, t := takeTurns(min(l.rounds, 5),
		func() sample { return turn(workqueue.NewTypedDelayingQueue[string]()) },
		func() sample { return turn(adapters.NewTypedDelayingQueue[string]()) })
	return []Row{newRow("A2 adapter, BenchmarkDelayingQueue_AddAfter, CPU", cpuEach(c), cpuEach(t), better(2, "less CPU"))}
}

// takeTurns runs both sides in turn in this process. Profile samples are labelled with the side.
func takeTurns(rounds int, clientGo, tarn func() sample) (c, t []sample) {
	labelled := func(side string, run func() sample) func() sample {
		return func() (s sample) {
			pprof.Do(context.Background(), pprof.Labels("side", side), func(context.Context) { s = run() })
			return s
		}
	}
	clientGo, tarn = labelled("client-go", clientGo), labelled("tarn", tarn)
	for round := range rounds {
		if round%2 == 0 {
			c, t = append(c, clientGo()), append(t, tarn())
		} else {
			t, c = append(t, tarn()), append(c, clientGo())
		}
	}
	return c, t
}

// adapterLister is BenchmarkLister_Match, in which a hundred of many objects match a selector,
// and the other calls of a lister: client-go's indexer beside that of an informer.
func adapterLister(l *lab) []Row {
	const matching = 100
	set := map[string]string{"match": "true"}
	indexers := func() cache.Indexers {
		return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
	labelled := indexers()
	labelled[adapters.LabelIndex] = adapters.LabelIndexFunc
	theirs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	ours := adapters.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, labelled).GetIndexer()
	n := min(l.objects, 100_000)
	names := make([]string, n)
	for i := range n {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("ns-%d", i%100), Name: fmt.Sprintf("obj-%d", i), Labels: map[string]string{},
		}}
		if i < matching {
			obj.Labels = set
		}
		names[i] = obj.Namespace + "/" + obj.Name
		check(theirs.Add(obj))
		check(ours.Add(obj))
	}
	selector := labels.SelectorFromSet(set)
	expect := func(got, want int) {
		if got != want {
			fail("listed %d objects; want %d", got, want)
		}
	}
	list := func(n, want int, do func(cache.AppendFunc) error) {
		for range n {
			got := 0
			check(do(func(any) { got++ }))
			expect(got, want)
		}
	}
	selected, selectedOurs := duel{
		clientGo: func(n int) {
			list(n, matching, func(f cache.AppendFunc) error { return cache.ListAll(theirs, selector, f) })
		},
		tarn: func(n int) {
			list(n, matching, func(f cache.AppendFunc) error { return adapters.ListAll(ours, selector, f) })
		},
		least: true,
	}.run(l)
	what := fmt.Sprintf("adapter, BenchmarkLister_Match: %d of %s, ", matching, number(float64(n)))
	matched := func(indexer cache.Indexer) func(int) {
		return func(n int) {
			list(n, matching, func(f cache.AppendFunc) error { return cache.ListAll(indexer, selector, f) })
		}
	}
	plain, plainOurs := duel{clientGo: matched(theirs), tarn: matched(ours), least: true}.run(l)
	rows := []Row{
		newRow("A4 "+what+"client-go's ListAll over both", plain, plainOurs, faster(2)),
		newRow("+ "+what+"clientgo.ListAll with a label index", selected, selectedOurs),
	}
	for _, w := range []struct {
		what, namespace string
		want            int
	}{{"A5 adapter, lister: everything, client-go's ListAll over both", "", n}, {"A6 adapter, lister: one namespace of 100, client-go's ListAllByNamespace over both", "ns-7", n / 100}} {
		all := func(indexer cache.Indexer) func(int) {
			return func(n int) {
				list(n, w.want, func(f cache.AppendFunc) error {
					return cache.ListAllByNamespace(indexer, w.namespace, labels.Everything(), f)
				})
			}
		}
		c, t := duel{clientGo: all(theirs), tarn: all(ours), least: true}.run(l)
		rows = append(rows, newRow(w.what, c, t, faster(2)))
	}
	get := func(indexer cache.Indexer) func(int) {
		return func(n int) {
			for i := range n {
				if _, ok, _ := indexer.GetByKey(names[i*7919%len(names)]); !ok {
					fail("%s is not there", names[i*7919%len(names)])
				}
			}
		}
	}
	c, t := duel{clientGo: get(theirs), tarn: get(ours), least: true}.run(l)
	return append(rows, newRow("+ adapter, lister: Get, quiet", c, t))
}
