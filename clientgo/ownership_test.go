package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/wire"
)

func (r *rig) replicas(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := r.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{"secret": "x", "team": "y"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx", Args: []string{"a", "b"}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// O01: with SetTransform a transform owns its object, by list and watch, in either encoding.
func TestO01_ATransformThatIsSetOwnsItsObject(t *testing.T) {
	for _, encoding := range []wire.Encoding{wire.Protobuf, wire.JSON} {
		t.Run(fmt.Sprint(encoding), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.replicas(t, "web-0", "web-1", "web-2", "web-3", "web-4", "web-5")
				lw, err := clientgo.NewListWatch(r.wire, wire.MustOf[*corev1.Pod]().Encoded(encoding), clientgo.ListWatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				inf := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
				err = inf.SetTransform(func(obj any) (any, error) {
					p := obj.(*corev1.Pod)
					p.Spec.Containers[0].Image = "mirror/" + p.Spec.Containers[0].Image
					delete(p.Annotations, "secret")
					if p.Name == "nil" {
						return nil, nil
					}
					return p, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				start(t, inf)
				<-time.After(time.Second)
				r.replicas(t, "nil", "web-6", "web-7")
				<-time.After(time.Second)
				synctest.Wait()
				if n := len(inf.GetStore().List()); n != 8 {
					t.Errorf("%d pods", n)
				}
				for _, obj := range inf.GetStore().List() {
					p := obj.(*corev1.Pod)
					if got := fmt.Sprint(p.Spec.Containers[0].Image, p.Annotations); got != "mirror/nginxmap[team:y]" {
						t.Errorf("%s: %s", p.Name, got)
					}
				}
			})
		})
	}
}

// As with client-go, a handler that writes to an object changes no other.
func TestHandlersGetObjectsThatShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replicas(t, "web-0", "web-1", "web-2", "web-3")
		inf := clientgo.NewSharedIndexInformer(r.sources(t)["wire"], &corev1.Pod{}, 0, cache.Indexers{})
		start(t, inf)
		<-time.After(time.Second)
		r.replicas(t, "web-4", "web-5")
		<-time.After(time.Second)
		synctest.Wait()
		containers := map[*corev1.Container]bool{}
		for _, obj := range inf.GetStore().List() {
			containers[&obj.(*corev1.Pod).Spec.Containers[0]] = true
		}
		if len(containers) != 6 {
			t.Errorf("6 pods have %d containers between them", len(containers))
		}
	})
}
