package clientgo_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// The tests here hold more of what client-go's own tests pin; see
// docs/clientgo-behaviours.md.

func TestWaitingForWhatDoesNotSyncEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewSharedIndexInformer(newPodServer(true), &corev1.Pod{}, 0, cache.Indexers{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if cache.WaitFor(ctx, "", inf.HasSyncedChecker()) {
			t.Error("an informer that does not run has synced")
		}
	})
}

// An object that stays does not keep those that came in the same list.
func TestAnObjectDoesNotKeepItsListInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		w.put("gone1", false)
		w.put("stays1", false)
		inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
		start(t, inf)()
		store := inf.GetStore()
		gone := func() weak.Pointer[corev1.Pod] {
			obj, _, _ := store.GetByKey("ns1/gone1")
			if err := store.Delete(obj); err != nil {
				t.Error(err)
			}
			return weak.Make(obj.(*corev1.Pod))
		}()
		runtime.GC()
		runtime.GC()
		if obj, ok, _ := store.GetByKey("ns1/stays1"); gone.Value() != nil || !ok {
			t.Errorf("the deleted object is still held: %v; the other: %v", gone.Value() != nil, obj)
		}
	})
}
