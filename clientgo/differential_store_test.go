package clientgo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// TestIndexersAgreeWithClientGo makes the same random writes to both.
func TestIndexersAgreeWithClientGo(t *testing.T) {
	upper := func(obj any) (any, error) {
		p := obj.(*corev1.Pod)
		if p.Name == "p7" {
			return nil, errors.New("not this one")
		}
		p.Spec.NodeName += "+"
		return p, nil
	}
	for seed := range 2 * runs() {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		indexers := func() cache.Indexers {
			return cache.Indexers{"node": byNode, "namespace": cache.MetaNamespaceIndexFunc}
		}
		keyFunc := cache.KeyFunc(cache.DeletionHandlingMetaNamespaceKeyFunc)
		if rnd.IntN(3) == 0 {
			keyFunc = func(obj any) (string, error) {
				key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
				return "a/b/" + key, err
			}
		}
		var opts []cache.StoreOption
		if rnd.IntN(4) == 0 {
			opts = append(opts, cache.WithTransformer(upper))
		}
		both := []cache.Indexer{cache.NewIndexer(keyFunc, indexers(), opts...), clientgo.NewIndexer(keyFunc, indexers(), opts...)}
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

// TestThreadSafeStoresAgreeWithClientGo does so with keys that have nothing to do with
// the objects, and with objects that have no metadata.
func TestThreadSafeStoresAgreeWithClientGo(t *testing.T) {
	first := func(obj any) ([]string, error) { return []string{fmt.Sprint(obj)[:1]}, nil }
	for seed := range 2 * runs() {
		rnd := rand.New(rand.NewPCG(uint64(seed), 5))
		both := []cache.ThreadSafeStore{
			cache.NewThreadSafeStore(cache.Indexers{"first": first}, cache.Indices{}),
			clientgo.NewThreadSafeStore(cache.Indexers{"first": first}, cache.Indices{}),
		}
		for step := range 40 {
			op, key, value := rnd.IntN(6), []string{"", "/", "a", "a/b", "a/b/c", "/a", "b/"}[rnd.IntN(7)], fmt.Sprint(rnd.IntN(30))
			var got []string
			for _, s := range both {
				switch op {
				case 0:
					s.Add(key, value)
				case 1, 2:
					s.Update(key, value)
				case 3:
					s.Delete(key)
				case 4:
					s.Replace(map[string]any{key: value, "x/y": "9"}, value)
				case 5:
					s.(cache.ThreadSafeStoreWithTransaction).Transaction(
						cache.ThreadSafeStoreTransaction{Key: key, Transaction: cache.Transaction{Type: cache.TransactionTypeAdd, Object: value}},
						cache.ThreadSafeStoreTransaction{Key: "a", Transaction: cache.Transaction{Type: cache.TransactionTypeDelete}},
					)
				}
				keys, list, values := s.ListKeys(), s.List(), s.ListIndexFuncValues("first")
				slices.Sort(keys)
				slices.Sort(values)
				slices.SortFunc(list, func(a, b any) int { return cmpText(a, b) })
				obj, ok := s.Get(key)
				ones, err := s.IndexKeys("first", "1")
				objs, err2 := s.ByIndex("first", "2")
				slices.SortFunc(objs, cmpText)
				got = append(got, fmt.Sprintf("%q %q %q %v %v %q %v %q %v %q", keys, list, values, obj, ok, ones, err, objs, err2, s.LastStoreSyncResourceVersion()))
			}
			if got[0] != got[1] {
				t.Fatalf("seed %d, step %d, op %d:\nclient-go %s\nours      %s", seed, step, op, got[0], got[1])
			}
		}
	}
}

func cmpText(a, b any) int { return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b))) }

// TestDeltaFIFOsAgreeWithClientGo compares what is popped. Which deletions come first when
// a list lacks several keys, client-go leaves to its map; with lists the keys are compared
// without their order.
func TestDeltaFIFOsAgreeWithClientGo(t *testing.T) {
	for seed := range 2 * runs() {
		rnd := rand.New(rand.NewPCG(uint64(seed), 9))
		lists, withKnown, replaced := rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(2) == 0
		known := cache.NewStore(cache.MetaNamespaceKeyFunc)
		transform := func(obj any) (any, error) {
			p := obj.(*corev1.Pod).DeepCopy()
			p.Spec.NodeName += "+"
			return p, nil
		}
		opts := cache.DeltaFIFOOptions{EmitDeltaTypeReplaced: replaced, Transformer: transform}
		if withKnown {
			opts.KnownObjects = known
		}
		both := []cache.Queue{cache.NewDeltaFIFOWithOptions(opts), clientgo.NewDeltaFIFOWithOptions(opts)}
		pending := 0
		pop := func(q cache.Queue) string {
			var text string
			_, err := q.Pop(func(obj any, initial bool) error {
				text = fmt.Sprint(deltaTexts(obj.(cache.Deltas)), initial)
				return nil
			})
			return fmt.Sprint(text, err)
		}
		check := func(step int, got []string) {
			t.Helper()
			if a, b := both[0].HasSynced(), both[1].HasSynced(); a != b || got[0] != got[1] {
				t.Fatalf("seed %d, step %d, lists %v, known %v:\nclient-go %s synced %v\nours      %s synced %v", seed, step, lists, withKnown, got[0], a, got[1], b)
			}
		}
		for step := range 40 {
			pod, op := randomPod(rnd, step+1), rnd.IntN(8)
			many := []any{}
			for range rnd.IntN(4) {
				many = append(many, randomPod(rnd, step+1))
			}
			var got []string
			for _, q := range both {
				var err error
				switch op {
				case 0, 1:
					err = q.Add(pod)
				case 2, 3:
					err = q.Update(pod)
				case 4:
					err = q.Delete(pod)
				case 5:
					key, _ := cache.MetaNamespaceKeyFunc(pod)
					err = q.Delete(cache.DeletedFinalStateUnknown{Key: key, Obj: pod})
				case 6:
					if lists {
						err = q.Replace(many, fmt.Sprint(step))
					} else if !withKnown {
						err = q.Resync()
					}
				}
				text := fmt.Sprint(err)
				if q.HasSynced() { // in client-go an Add that fails makes it so
					text += fmt.Sprint(q.Add(struct{}{}))
				}
				got = append(got, text)
			}
			check(step, got)
			if op == 7 || step == 39 {
				// All that is pending, with a mark at the end.
				end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("end-", step)}}
				var popped [2][]string
				for i, q := range both {
					if err := q.Add(end); err != nil {
						t.Fatal(err)
					}
					for {
						text := pop(q)
						popped[i] = append(popped[i], text)
						pending++
						if strings.Contains(text, end.Name) {
							break
						}
					}
					if lists {
						slices.Sort(popped[i])
					}
				}
				check(step, []string{fmt.Sprintf("%q", popped[0]), fmt.Sprintf("%q", popped[1])})
				known.Add(pod)
			}
		}
		if pending == 0 {
			t.Fatalf("seed %d: nothing was popped", seed)
		}
	}
}

func deltaTexts(deltas cache.Deltas) []string {
	var out []string
	for _, d := range deltas {
		obj, mark := d.Object, ""
		if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj, mark = t.Obj, "tombstone of "+t.Key+" "
		}
		text := "nothing"
		if obj != nil {
			_, text = podLine(obj)
			text = obj.(*corev1.Pod).Name + " " + text
		}
		out = append(out, fmt.Sprint(d.Type, " ", mark, text))
	}
	return out
}
