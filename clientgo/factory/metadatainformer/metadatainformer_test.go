package metadatainformer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/metadatainformer"
	"github.com/tarnproject/tarn/wire"
)

func TestAFactoryMirrorsByTheMetadataClientAndByTheWire(t *testing.T) {
	for _, byWire := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.Start(t, apiserver.Options{})
			for _, name := range []string{"web", "db"} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}}
				if _, err := server.Create(p); err != nil {
					t.Fatal(err)
				}
			}
			client, err := metadata.NewForConfig(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			var options []metadatainformer.SharedInformerOption
			if byWire {
				w, err := wire.New(server.Config(), wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				options = append(options, metadatainformer.WithClient(w))
			}
			f := metadatainformer.NewSharedInformerFactoryWithOptions(client, time.Minute, options...)
			gvr := corev1.SchemeGroupVersion.WithResource("pods")
			pods := f.ForResource(gvr)
			ctx, cancel := context.WithCancel(t.Context())
			f.Start(ctx.Done())
			if synced := f.WaitForCacheSync(ctx.Done()); !synced[gvr] {
				t.Error("not synced")
			}
			list, err := pods.Lister().ByNamespace("default").List(labels.Everything())
			if err != nil || len(list) != 2 {
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
