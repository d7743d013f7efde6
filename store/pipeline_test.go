package store_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ delta.Known[*corev1.Pod] = (*store.Store[*corev1.Pod])(nil)

// TestQ09_StoreIsTheServersStateAtTheBatchsVersion runs a buffer and a store together: a
// producer reports what a server does, by events, relists and bookmarks, a consumer applies
// batches, and after every batch the store is just what the server was at its version.
func TestQ09_StoreIsTheServersStateAtTheBatchsVersion(t *testing.T) {
	acc := object.Meta[*corev1.Pod]()
	s := store.Must(store.New(acc, store.Options[*corev1.Pod]{}))
	buffer, err := delta.NewBuffer[*corev1.Pod](delta.BufferOptions{Held: s.Held})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards states
	states := map[object.Version]map[object.Key]*corev1.Pod{}
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer buffer.Close()
		produce(t, buffer, func(v object.Version, state map[object.Key]*corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			states[v] = state
		})
	})
	batches := 0
	for {
		err := buffer.PopBatch(ctx, func(b *object.Batch[*corev1.Pod]) error {
			batches++
			_, err := s.Apply(b, nil)
			snap := s.Snapshot()
			defer snap.Release()
			mu.Lock()
			want := states[snap.Version()]
			mu.Unlock()
			got := map[object.Key]*corev1.Pod{}
			for pod := range snap.All() {
				got[object.Key{Namespace: pod.Namespace, Name: pod.Name}] = pod
			}
			sameVersion := func(a, b *corev1.Pod) bool { return a.ResourceVersion == b.ResourceVersion }
			if !maps.EqualFunc(got, want, sameVersion) {
				t.Errorf("at version %s: %d objects, want %d", snap.Version(), len(got), len(want))
			}
			return err
		})
		if err == delta.ErrClosed {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if batches == 0 {
		t.Error("no batches")
	}
}

// produce acts as a server: it notes every change before it passes it to the buffer.
func produce(t *testing.T, buffer *delta.Buffer[*corev1.Pod], note func(object.Version, map[object.Key]*corev1.Pod)) {
	r := rand.New(rand.NewPCG(4, 2))
	now := map[object.Key]*corev1.Pod{}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for i := 1; i <= 3000; i++ {
		version := object.Version(strconv.Itoa(i))
		key := object.Key{Namespace: fmt.Sprint("ns-", r.IntN(3)), Name: fmt.Sprint("pod-", r.IntN(40))}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: "u", ResourceVersion: string(version)}}
		switch _, there := now[key]; {
		case i == 1 || r.IntN(50) == 0: // a relist, after something was missed
			for k := range now {
				if r.IntN(5) == 0 {
					delete(now, k)
				}
			}
			list := object.List[*corev1.Pod]{Mark: object.Mark{Version: version}}
			for k, pod := range now {
				list.Items = append(list.Items, object.Item[*corev1.Pod]{
					Key: k, UID: pod.UID, Version: object.Version(pod.ResourceVersion), Value: object.Decoded(pod)})
			}
			note(version, maps.Clone(now))
			must(buffer.Apply(&podBatch{Changes: []podDelta{{Kind: object.Replaced, List: &list}}, Marks: []object.Mark{list.Mark}}))
		case r.IntN(10) == 0:
			note(version, maps.Clone(now))
			must(buffer.Apply(&podBatch{Marks: []object.Mark{{Version: version}}}))
		case there && r.IntN(3) == 0:
			delete(now, key)
			note(version, maps.Clone(now))
			gone := event(object.Deleted, pod)
			must(buffer.Apply(&podBatch{Changes: []podDelta{gone}, Marks: []object.Mark{{Version: version}}}))
		default:
			now[key] = pod
			note(version, maps.Clone(now))
			must(buffer.Apply(&podBatch{Changes: []podDelta{event(object.Updated, pod)}, Marks: []object.Mark{{Version: version}}}))
		}
	}
}
