package informer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	corev1 "k8s.io/api/core/v1"
)

// A namespace that is covered again is not shown as it was before it left: neither at an
// older version, nor in an epoch that is over.
func TestL02_ANamespaceThatIsCoveredAgainDoesNotGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld("a/1", "b/1")
		var mu sync.Mutex
		var asked []object.Version
		src := reflector.SourceFuncs[*corev1.Pod]{WatchFunc: w.Watch}
		src.ListFunc = func(ctx context.Context, opts object.ListOptions, in *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
			mu.Lock()
			asked = append(asked, opts.Version)
			mu.Unlock()
			return w.List(ctx, opts, in, sink)
		}
		opts := podOptions{Namespaces: []string{"a"}}
		opts.Reflector.Streaming = reflector.StreamingOff
		inf := newInformer(t, src, opts)
		start(t, inf)
		synctest.Wait()
		w.rewind(50)
		pass(time.Minute)
		before := inf.Snapshot()
		defer before.Release()
		mark := before.Mark("a")
		if mark.Epoch != 1 {
			t.Fatalf("at %+v, want epoch 1", mark)
		}
		for _, set := range [][]string{{}, {"a"}} {
			if err := inf.SetNamespaces(set...); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
		}
		after := inf.Snapshot()
		defer after.Release()
		if got := after.Mark("a"); !got.Reached(mark) || got.Epoch != mark.Epoch {
			t.Errorf("covered again, it is at %+v; it was at %+v", got, mark)
		}
		mu.Lock()
		defer mu.Unlock()
		if last := asked[len(asked)-1]; last != mark.Version {
			t.Errorf("the list asked for %q, want not older than %q", last, mark.Version)
		}
	})
}
