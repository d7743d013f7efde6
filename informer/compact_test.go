package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

func packed() *store.Form[*corev1.Pod] {
	return store.Packed((*corev1.Pod).Marshal, decodePod)
}

// decodePod decodes what a source received, in either encoding.
func decodePod(data []byte) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if len(data) > 0 && data[0] == '{' {
		return p, json.Unmarshal(data, p)
	}
	return p, p.Unmarshal(data)
}

// A list that is being received takes as little memory as the mirror will: of the objects
// that have come, none is held decoded.
func TestL09_ACompactInformerHoldsNoDecodedListMeanwhile(t *testing.T) {
	const n = 500
	var seen []weak.Pointer[corev1.Pod]
	alive := -1
	src := reflector.SourceFuncs[*corev1.Pod]{
		ListFunc: func(_ context.Context, _ object.ListOptions, _ *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
			for i := range n {
				pod := &corev1.Pod{}
				pod.Namespace, pod.Name, pod.UID = "shop", fmt.Sprintf("pod-%04d", i), object.UID(fmt.Sprint("u", i))
				pod.ResourceVersion = strconv.Itoa(i + 1)
				pod.Spec.NodeName = fmt.Sprint("node-", i%7)
				seen = append(seen, weak.Make(pod))
				if err := sink(simtest.ItemOf(pod)); err != nil {
					return object.Page{}, err
				}
			}
			for range 5 { // what the last call left on the stack may keep one
				runtime.GC()
				alive = len(slices.DeleteFunc(slices.Clone(seen), func(w weak.Pointer[corev1.Pod]) bool { return w.Value() == nil }))
			}
			return object.Page{Version: "1000"}, nil
		},
		WatchFunc: func(ctx context.Context, _ object.WatchOptions, _ *object.Intake[*corev1.Pod]) (object.Stream[*corev1.Pod], error) {
			return reflector.StreamFuncs[*corev1.Pod]{NextFunc: func() ([]object.Event[*corev1.Pod], error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}, nil
		},
	}
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	inf := newInformer(t, src, podOptions{Form: packed(), Indexes: []store.AnyIndex[*corev1.Pod]{byNode}})
	var added int
	sub := subscribe(t, inf, podHandler{OnAdd: func(p *corev1.Pod, _ bool) {
		if p.Spec.NodeName != "" {
			added++
		}
	}}, podSub{})
	start(t, inf)
	<-sub.Synced()
	if alive > 2 {
		t.Errorf("when all %d objects had come, %d were held decoded", n, alive)
	}
	snap := inf.Snapshot()
	defer snap.Release()
	simtest.Want(t, "objects, added, on a node", []int{snap.Len(), added, byNode.Count(snap, "node-3")}, []int{n, n, 71})
}

// The compact mirror of a resource: objects rest as what each has of its own.
func ExampleOptions_form() {
	opts := informer.Options[*corev1.Pod]{
		Form: store.Packed((*corev1.Pod).Marshal, func(data []byte) (*corev1.Pod, error) {
			p := &corev1.Pod{}
			return p, p.Unmarshal(data)
		}),
	}
	inf, err := informer.New(simtest.Pods("shop/web"), podMeta, opts)
	if err != nil {
		panic(err)
	}
	ctx, end := running(inf)
	defer end()
	if err := inf.WaitSynced(ctx); err != nil {
		panic(err)
	}
	pod, _ := inf.Get(object.Key{Namespace: "shop", Name: "web"})
	fmt.Println(pod.Name)
	// Output: web
}
