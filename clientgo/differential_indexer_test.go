package clientgo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

func randomPod(rnd *rand.Rand, version int) *corev1.Pod {
	n := rnd.IntN(12)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n), ResourceVersion: strconv.Itoa(version)}}
	if n%3 > 0 {
		p.Namespace = fmt.Sprint("ns", n%3)
	}
	p.Spec.NodeName = fmt.Sprint("node-", rnd.IntN(4))
	return p
}

func texts(objs []any) []string {
	out := []string{}
	for _, obj := range objs {
		key, text := podLine(obj)
		out = append(out, key+" "+text)
	}
	slices.Sort(out)
	return out
}

// indexerState is all that can be read of an indexer.
func indexerState(x cache.Indexer, probe *corev1.Pod) map[string]any {
	keys := x.ListKeys()
	slices.Sort(keys)
	st := map[string]any{"list": texts(x.List()), "keys": keys, "rv": x.LastStoreSyncResourceVersion()}
	obj, ok, err := x.Get(probe)
	st["get"] = fmt.Sprint(obj != nil, ok, err)
	obj, ok, err = x.GetByKey("ns1/p1")
	st["by key"] = fmt.Sprint(obj != nil, ok, err)
	for _, name := range []string{"node", "namespace", "late", "none"} {
		values := x.ListIndexFuncValues(name)
		slices.Sort(values)
		like, err := x.Index(name, probe)
		st[name] = fmt.Sprint(values, texts(like), err)
		for _, v := range append(values, "absent") {
			objs, err := x.ByIndex(name, v)
			keys, err2 := x.IndexKeys(name, v)
			st[name+"="+v] = fmt.Sprint(texts(objs), err, keys, err2)
		}
	}
	return st
}

// TestIndexersAgreeWithClientGo makes the same random writes to client-go's indexer and to that of an informer.
func TestIndexersAgreeWithClientGo(t *testing.T) {
	for seed := range 2 * runs() {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		indexers := func() cache.Indexers {
			return cache.Indexers{"node": byNode, "namespace": cache.MetaNamespaceIndexFunc}
		}
		both := []cache.Indexer{
			cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers()),
			clientgo.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, indexers()).GetIndexer(),
		}
		for step := range 40 {
			var got []string
			pod, version := randomPod(rnd, step+1), fmt.Sprint(step+1)
			op := rnd.IntN(9)
			many := []*corev1.Pod{}
			for range rnd.IntN(6) {
				many = append(many, randomPod(rnd, step+1))
			}
			for _, x := range both {
				var err any
				switch op {
				case 0, 1:
					err = x.Add(pod.DeepCopy())
				case 2, 3:
					err = x.Update(pod.DeepCopy())
				case 4:
					err = x.Delete(pod.DeepCopy())
				case 5:
					err = x.Delete(cache.DeletedFinalStateUnknown{Key: "p3", Obj: pod})
				case 6:
					var list []any
					for _, p := range many {
						list = append(list, p.DeepCopy())
					}
					err = x.Replace(list, version)
				case 7:
					var txns []cache.Transaction
					for i, p := range many {
						typ := []cache.TransactionType{cache.TransactionTypeAdd, cache.TransactionTypeUpdate, cache.TransactionTypeDelete}[i%3]
						txns = append(txns, cache.Transaction{Object: p.DeepCopy(), Type: typ})
					}
					txns = append(txns, cache.Transaction{Object: 5, Type: cache.TransactionTypeAdd}, cache.Transaction{Object: pod.DeepCopy(), Type: cache.TransactionTypeUpdate})
					err = x.(cache.TransactionStore).Transaction(txns...)
				case 8:
					x.Bookmark(version)
					err = x.AddIndexers(cache.Indexers{"late": byNode})
				}
				got = append(got, fmt.Sprint(err, x.Resync(), x.Add(struct{}{})))
			}
			if got[0] != got[1] {
				t.Fatalf("seed %d, step %d, op %d: client-go returned %s, ours %s", seed, step, op, got[0], got[1])
			}
			if diff := cmp.Diff(indexerState(both[0], pod), indexerState(both[1], pod)); diff != "" {
				t.Fatalf("seed %d, step %d, op %d (-client-go +ours):\n%s", seed, step, op, diff)
			}
		}
	}
}
