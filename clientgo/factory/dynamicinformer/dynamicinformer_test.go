package dynamicinformer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/dynamicinformer"
	"github.com/tarnproject/tarn/wire"
)

func TestAFactoryMirrorsByTheDynamicClientAndByTheWire(t *testing.T) {
	for _, byWire := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.Start(t, apiserver.Options{})
			for _, name := range []string{"web", "db"} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}}
				if _, err := server.Create(p); err != nil {
					t.Fatal(err)
				}
			}
			client, err := dynamic.NewForConfig(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			var options []dynamicinformer.Option
			if byWire {
				w, err := wire.New(server.Config(), wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				options = append(options, dynamicinformer.WithClient(w))
			}
			f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Minute, "default",
				func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }, options...)
			gvr := corev1.SchemeGroupVersion.WithResource("pods")
			pods := f.ForResource(gvr)
			ctx, cancel := context.WithCancel(t.Context())
			f.Start(ctx.Done())
			if synced := f.WaitForCacheSync(ctx.Done()); !synced[gvr] {
				t.Error("not synced")
			}
			list, err := pods.Lister().ByNamespace("default").List(labels.Everything())
			if err != nil || len(list) != 1 {
				t.Errorf("by the wire %v: %v, %v", byWire, list, err)
			}
			if f.ForResource(gvr).Informer() != pods.Informer() {
				t.Error("the informer is not shared")
			}
			cancel()
			f.Shutdown()
		})
	}
}
