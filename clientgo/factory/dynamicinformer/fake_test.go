package dynamicinformer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo/factory/dynamicinformer"
)

func config(namespace string, uid types.UID) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetNamespace(namespace)
	u.SetName("config")
	u.SetUID(uid)
	return u
}

// A fake knows no streaming lists, and sends what it is given.
func TestAFactoryOverAFakeClientTellsOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := corev1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := fake.NewSimpleDynamicClient(scheme, config("other", "uid-0"))
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "shop", nil)
		var told []string
		_, err := f.ForResource(gvr).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { told = append(told, fmt.Sprint("add ", obj.(*unstructured.Unstructured).GetUID())) },
			UpdateFunc: func(_, obj any) {
				told = append(told, fmt.Sprint("update ", obj.(*unstructured.Unstructured).GetUID()))
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
		for _, namespace := range []string{"shop", "elsewhere"} {
			if _, err := configs.Namespace(namespace).Create(ctx, config(namespace, "uid-1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := configs.Namespace("shop").Update(ctx, config("shop", "uid-2"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := configs.Namespace("shop").Delete(ctx, "config", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"add uid-1", "update uid-2", "delete"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		cancel()
		f.Shutdown()
	})
}
