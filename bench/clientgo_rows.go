package main

import (
	"context"
	"fmt"
	"runtime/pprof"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	adapters "github.com/tarnproject/tarn/clientgo"
)

// The adapters of package clientgo beside client-go: the workloads of client-go's own
// benchmarks, reimplemented.

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
	theirs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	ours := adapters.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, indexers()).GetIndexer()
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
	what := fmt.Sprintf("adapter, BenchmarkLister_Match: %d of %s, ", matching, number(float64(n)))
	matched := func(indexer cache.Indexer) func(int) {
		return func(n int) {
			list(n, matching, func(f cache.AppendFunc) error { return cache.ListAll(indexer, selector, f) })
		}
	}
	plain, plainOurs := duel{clientGo: matched(theirs), tarn: matched(ours), least: true}.run(l)
	rows := []Row{
		newRow("A4 "+what+"client-go's ListAll over both", plain, plainOurs, faster(2)),
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
