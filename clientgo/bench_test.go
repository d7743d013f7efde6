package clientgo_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// BenchmarkIndexer measures each method of a cache.Indexer: client-go's and that of an informer, with the objects in 100 namespaces and an index by namespace and by node.
//
//	go test ./clientgo -run '^$' -bench Indexer/^1000$/ -count 5
func BenchmarkIndexer(b *testing.B) {
	indexers := func() cache.Indexers {
		return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode}
	}
	sides := []struct {
		name string
		make func() cache.Indexer
	}{
		{"client-go", func() cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers()) }},
		{"informer", func() cache.Indexer {
			return clientgo.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, indexers()).GetIndexer()
		}},
	}
	for _, n := range []int{1_000, 10_000, 100_000} {
		pods := benchPods(n, 1)
		later := benchPods(n, 2)
		keys := make([]string, n)
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		for i, at := range order {
			keys[i] = pods[at].(*corev1.Pod).Namespace + "/" + pods[at].(*corev1.Pod).Name
		}
		for _, op := range []struct {
			name string
			do   func(x cache.Indexer, i int)
		}{
			{"Get", func(x cache.Indexer, i int) { _, _, _ = x.Get(pods[order[i%n]]) }},
			{"GetByKey", func(x cache.Indexer, i int) { _, _, _ = x.GetByKey(keys[i%n]) }},
			{"List", func(x cache.Indexer, _ int) { x.List() }},
			{"ListAfterChange", func(x cache.Indexer, i int) { _ = x.Update(later[order[i%n]]); x.List() }},
			{"ListKeys", func(x cache.Indexer, _ int) { x.ListKeys() }},
			{"Index", func(x cache.Indexer, i int) { _, _ = x.Index(cache.NamespaceIndex, pods[i%n]) }},
			{"ByIndex", func(x cache.Indexer, i int) { _, _ = x.ByIndex(cache.NamespaceIndex, namespaceOf(i)) }},
			{"ByIndexAfterChange", func(x cache.Indexer, i int) {
				_ = x.Update(later[order[i%n]])
				_, _ = x.ByIndex(cache.NamespaceIndex, namespaceOf(order[i%n]))
			}},
			{"IndexKeys", func(x cache.Indexer, i int) { _, _ = x.IndexKeys(cache.NamespaceIndex, namespaceOf(i)) }},
			{"ListIndexFuncValues", func(x cache.Indexer, _ int) { x.ListIndexFuncValues(cache.NamespaceIndex) }},
			{"Update", func(x cache.Indexer, i int) { _ = x.Update(later[order[i%n]]) }},
			{"AddAndDelete", func(x cache.Indexer, i int) { _ = x.Delete(pods[order[i%n]]); _ = x.Add(pods[order[i%n]]) }},
			{"Replace", func(x cache.Indexer, i int) { _ = x.Replace([][]any{later, pods}[i%2], "3") }},
		} {
			for _, side := range sides {
				filled := sync.OnceValue(func() cache.Indexer {
					x := side.make()
					if err := x.Replace(pods, "1"); err != nil {
						b.Fatal(err)
					}
					return x
				})
				b.Run(fmt.Sprintf("%d/%s/%s", n, op.name, side.name), func(b *testing.B) {
					x := filled()
					b.ReportAllocs()
					b.ResetTimer()
					for i := range b.N {
						op.do(x, i)
					}
				})
			}
		}
	}
}

func namespaceOf(i int) string { return "ns-" + strconv.Itoa(i%100) }

func benchPods(n, version int) []any {
	pods := make([]any, n)
	for i := range pods {
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: fmt.Sprintf("web-6d8f7c9b5d-%05d", i), UID: uidOf(i + 1), ResourceVersion: strconv.Itoa(version*1000000 + i)},
			Spec:       corev1.PodSpec{NodeName: "node-" + strconv.Itoa(i%50)},
		}
	}
	return pods
}
