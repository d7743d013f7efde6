package clientgo_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// etcd comes back from a backup while an informer runs: it lists when its watch breaks at
// the same version again and again, and then has what the server has, whose versions are
// lower than those it knew.
func TestW19_InformersFollowARewind(t *testing.T) {
	for _, way := range []string{"clientset", "wire"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rewind(t, way) })
		})
	}
}

func rewind(t *testing.T, way string) {
	r := newRig(t)
	pods := r.clients.CoreV1().Pods("shop")
	relabel := func(pod *corev1.Pod, app string) *corev1.Pod {
		t.Helper()
		pod = pod.DeepCopy()
		pod.Labels = map[string]string{"app": app}
		pod, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod
	}
	r.create(t, "goes", nil)
	stays := r.create(t, "stays", map[string]string{"app": "0"})

	inf := clientgo.NewSharedIndexInformer(r.sources(t)[way], &corev1.Pod{}, 0, cache.Indexers{})
	// The default handler sleeps by a clock that is older than the test's.
	if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		t.Fatal(err)
	}
	var calls recording
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { calls.add("", "add %s", obj.(*corev1.Pod).Name) },
		UpdateFunc: func(_, obj any) {
			calls.add("", "update %s to %s", obj.(*corev1.Pod).Name, obj.(*corev1.Pod).Labels["app"])
		},
		DeleteFunc: func(obj any) {
			gone, unknown := obj.(cache.DeletedFinalStateUnknown)
			if unknown {
				obj = gone.Obj
			}
			calls.add("", "delete %s, unknown %t", obj.(*corev1.Pod).Name, unknown)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, inf)
	<-time.After(time.Second)
	relabel(stays, "1")
	if err := pods.Delete(t.Context(), "goes", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	r.create(t, "never-was", nil)
	<-time.After(time.Second)
	synctest.Wait()
	calls.take()

	seen := r.Version()
	// One more than the writes above, since a pod is marked before it is removed.
	if back := r.Rewind(4); back >= seen {
		t.Fatalf("rewound from %d to %d", seen, back)
	}
	// A watch that breaks soon after each time may do so because of what is sent there.
	for range 200 {
		r.Cut("pods")
		<-time.After(500 * time.Millisecond)
	}
	<-time.After(5 * time.Minute) // client-go waits long before it tries again
	synctest.Wait()
	got := calls.take()
	for _, want := range []string{": add goes", ": update stays to 0", ": delete never-was, unknown true"} {
		if !slices.Contains(got, want) {
			t.Errorf("received %q; want %q too", got, want)
		}
	}
	// And it follows on from there, at versions that it had seen before.
	relabel(stays, "2")
	<-time.After(time.Second)
	synctest.Wait()
	if got := calls.take(); !slices.Contains(got, ": update stays to 2") {
		t.Errorf("received %q after the rewind", got)
	}
	if got := slices.Sorted(slices.Values(inf.GetStore().ListKeys())); !slices.Equal(got, []string{"shop/goes", "shop/stays"}) {
		t.Errorf("it has %q", got)
	}
}
