package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// asError is errors.As for a type of errors.
func asError[E error](err error, target *E) bool { return errors.As(err, target) }

// TestAdapters runs client-go's interfaces on Tarn's parts: by the wire, and by the List
// and Watch of a clientset.
func TestAdapters(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		wired, err := clientgo.NewListWatch(newClient(t, s), configMaps, clientgo.ListWatchOptions{Namespace: s.namespace})
		if err != nil {
			t.Fatal(err)
		}
		api := s.clientset(t).CoreV1().ConfigMaps(s.namespace)
		called := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return api.Watch(ctx, opts)
			},
		}
		for name, lw := range map[string]cache.ListerWatcher{"the wire": wired, "a clientset": called} {
			t.Run(name, func(t *testing.T) {
				w.t = t
				w.create("a", "x")
				inf := clientgo.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
				calls := make(chan string, 100)
				if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc:    func(obj any) { calls <- "add " + obj.(*corev1.ConfigMap).Name },
					UpdateFunc: func(_, obj any) { calls <- "update " + obj.(*corev1.ConfigMap).Name },
					DeleteFunc: func(obj any) { calls <- "delete " + obj.(*corev1.ConfigMap).Name },
				}); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan struct{})
				go func() { inf.RunWithContext(ctx); close(ran) }()
				defer func() { stop(); <-ran }()
				if !cache.WaitForCacheSync(patience.Context(t).Done(), inf.HasSynced) {
					t.Fatal("never synced")
				}
				w.update("a", "y")
				w.create("b", "y")
				w.delete("a")
				for _, want := range []string{"add a", "update a", "add b", "delete a"} {
					select {
					case got := <-calls:
						if got != want {
							t.Fatalf("received %s; want %s", got, want)
						}
					case <-patience.Context(t).Done():
						t.Fatalf("never received %s", want)
					}
				}
				selector, err := labels.Parse("value=y")
				if err != nil {
					t.Fatal(err)
				}
				lister := corelisters.NewConfigMapLister(inf.GetIndexer())
				if got, err := lister.ConfigMaps(s.namespace).List(selector); err != nil || len(got) != 1 || got[0].Name != "b" {
					t.Errorf("listed %v, %v", got, err)
				}
				w.delete("b")
			})
		}
	})
}
