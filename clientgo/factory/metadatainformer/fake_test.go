package metadatainformer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo/factory/metadatainformer"
)

func config(namespace string, uid types.UID) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "config", UID: uid},
	}
}

// A fake knows no streaming lists, and sends what it is given.
func TestAFactoryOverAFakeClientTellsOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := fake.NewSimpleMetadataClient(scheme, config("other", "uid-0"))
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		f := metadatainformer.NewSharedInformerFactory(client, 0)
		var told []string
		_, err := f.ForResource(gvr).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { told = append(told, fmt.Sprint("add ", obj.(*metav1.PartialObjectMetadata).GetUID())) },
			UpdateFunc: func(_, obj any) {
				told = append(told, fmt.Sprint("update ", obj.(*metav1.PartialObjectMetadata).GetUID()))
			},
			DeleteFunc: func(any) { told = append(told, "delete") },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx.Done())
		if !f.WaitForCacheSync(ctx.Done())[gvr] {
			t.Error("not synced")
		}
		configs := client.Resource(gvr)
		shop := configs.Namespace("shop").(fake.MetadataClient)
		if _, err := shop.CreateFake(config("shop", "uid-1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := shop.UpdateFake(config("shop", "uid-2"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := configs.Namespace("shop").Delete(ctx, "config", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"add uid-0", "add uid-1", "update uid-2", "delete"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		cancel()
		f.Shutdown()
	})
}
