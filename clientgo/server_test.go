package clientgo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/wire"
)

// rig is an API server with a clientset and our client.
type rig struct {
	*apiserver.Server
	clients kubernetes.Interface
	wire    *wire.Client
}

func newRig(t *testing.T) *rig {
	r := &rig{Server: apiserver.Start(t, apiserver.Options{AnyNamespace: true})}
	var err error
	if r.clients, err = kubernetes.NewForConfig(r.MemoryConfig()); err != nil {
		t.Fatal(err)
	}
	if r.wire, err = wire.New(r.MemoryConfig(), wire.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.wire.CloseIdleConnections)
	return r
}

func (r *rig) create(t *testing.T, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	made, err := r.Create(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.(*corev1.Pod)
}

// sources are the ways in which an informer can get at the server's pods.
func (r *rig) sources(t *testing.T) map[string]cache.ListerWatcher {
	fast, err := clientgo.NewListWatch(r.wire, wire.MustOf[*corev1.Pod](), clientgo.ListWatchOptions{Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]cache.ListerWatcher{
		"clientset": cache.NewListWatchFromClient(r.clients.CoreV1().RESTClient(), "pods", "shop", fields.Everything()),
		"wire":      fast,
	}
}

func TestInformersMirrorTheServer(t *testing.T) {
	for _, way := range []string{"clientset", "wire"} {
		for impl, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
			if impl == "client-go" && way == "wire" {
				continue // it cannot; see D15
			}
			t.Run(impl+" by "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { mirror(t, way, make) })
			})
		}
	}
}

func mirror(t *testing.T, way string, make newInformer) {
	r := newRig(t)
	r.create(t, "a", map[string]string{"app": "web"})
	inf := make(r.sources(t)[way], &corev1.Pod{}, cache.SharedIndexInformerOptions{
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	var calls recording
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { calls.add("", "add %s %v", obj.(*corev1.Pod).Name, initial) },
		UpdateFunc: func(_, obj any) { calls.add("", "update %s", obj.(*corev1.Pod).Labels["app"]) },
		DeleteFunc: func(obj any) { calls.add("", "delete %s", obj.(*corev1.Pod).Name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, inf)
	<-time.After(time.Second)
	pods := r.clients.CoreV1().Pods("shop")
	b := r.create(t, "b", map[string]string{"app": "db"}).DeepCopy()
	b.Labels["app"] = "cache"
	if _, err := pods.Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second)
	synctest.Wait()
	want := []string{": add a true", ": add b false", ": update cache", ": update web", ": delete a"} // a pod is marked before it is removed
	if got := calls.take(); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
	found, err := listers.NewPodLister(inf.GetIndexer()).Pods("shop").List(labels.SelectorFromSet(labels.Set{"app": "cache"}))
	if err != nil || len(found) != 1 || found[0].Name != "b" || found[0].Spec.Containers[0].Image != "i" {
		t.Errorf("the lister found %v, %v", found, err)
	}
	if inf.LastSyncResourceVersion() != fmt.Sprint(r.Version()) {
		t.Errorf("at %s, the server is at %d", inf.LastSyncResourceVersion(), r.Version())
	}
}

func TestARelistByTheWireDecodesNothingThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 20 {
			r.create(t, fmt.Sprint("pod-", i), nil)
		}
		inf := clientgo.NewSharedIndexInformer(r.sources(t)["wire"], &corev1.Pod{}, 0, cache.Indexers{})
		same, other, gone := 0, 0, 0
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, new any) {
				if old == new {
					same++
				} else {
					other++
				}
			},
			DeleteFunc: func(obj any) {
				if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					gone++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, inf)
		<-time.After(2 * time.Second)
		// The program takes one away, of which the list will say that it is held.
		if err := inf.GetStore().Delete(cache.ExplicitKey("shop/pod-7")); err != nil {
			t.Fatal(err)
		}
		r.Cut("pods")
		r.create(t, "late", nil)
		for _, name := range []string{"pod-3", "pod-4"} {
			if err := r.clients.CoreV1().Pods("shop").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
		}
		r.Compact(0)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if same != 17 || other != 0 || gone != 2 {
			t.Errorf("%d updates to the same object, %d to another, %d deleted; want 17, 0, 2", same, other, gone)
		}
		if _, ok, _ := inf.GetStore().GetByKey("shop/pod-7"); !ok || len(inf.GetStore().ListKeys()) != 19 {
			t.Errorf("held %q", inf.GetStore().ListKeys())
		}
	})
}

func TestTweakedListWatchesAskForWhatTheyAreToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.create(t, "a", map[string]string{"app": "web"})
		r.create(t, "b", map[string]string{"app": "db"})
		lw, err := clientgo.NewListWatch(r.wire, wire.MustOf[*corev1.Pod](), clientgo.ListWatchOptions{
			Tweak: func(o *metav1.ListOptions) { o.LabelSelector = "app=db" },
		})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "cache.NewListWatchFromClient") {
			t.Errorf("%v, %v", list, err)
		}
		inf := clientgo.NewSharedInformer(lw, &corev1.Pod{}, 0)
		start(t, inf)
		<-time.After(time.Second)
		r.create(t, "c", map[string]string{"app": "web"})
		r.create(t, "d", map[string]string{"app": "db"})
		<-time.After(time.Second)
		synctest.Wait()
		if keys := inf.GetStore().ListKeys(); !slices.Equal(keys, []string{"shop/b", "shop/d"}) {
			t.Errorf("held %q", keys)
		}
	})
}
