package clientgo_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// podsOf reads the pods of a server with client-go's client.
func podsOf(server *apiserver.Server) cache.ListerWatcher {
	clients := kubernetes.NewForConfigOrDie(server.MemoryConfig())
	return cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods", "shop", fields.Everything())
}

// An informer with one handler and a store.
func ExampleNewInformer() {
	server, close := aServer()
	defer close()
	store, controller := clientgo.NewInformer(podsOf(server), &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
	})
	defer run(controller)()
	fmt.Println(store.ListKeys())
	// Output:
	// added web
	// [shop/web]
}

// The store holds what the transform returns.
func ExampleNewTransformingInformer() {
	server, close := aServer()
	defer close()
	store, controller := clientgo.NewTransformingInformer(podsOf(server), &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{}, func(obj any) (any, error) {
		pod := obj.(*corev1.Pod)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, ResourceVersion: pod.ResourceVersion}}, nil
	})
	defer run(controller)()
	pod, _, _ := store.GetByKey("shop/web")
	fmt.Printf("%q\n", pod.(*corev1.Pod).Spec.NodeName)
	// Output: ""
}

func ExampleNewSharedIndexInformerWithOptions() {
	server, close := aServer()
	defer close()
	informer := clientgo.NewSharedIndexInformerWithOptions(podsOf(server), &corev1.Pod{}, cache.SharedIndexInformerOptions{
		Indexers: cache.Indexers{
			"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
		},
		ObjectDescription: "the pods of the shop",
	})
	defer run(informer)()
	keys, err := informer.GetIndexer().IndexKeys("node", "node-7")
	fmt.Println(keys, err)
	// Output: [shop/web] <nil>
}

// The server is asked for the kind of a resource when the informer first lists it.
func ExampleNewLazyListWatch() {
	server, close := aServer()
	defer close()
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	lw := clientgo.NewLazyListWatch(func(ctx context.Context) (cache.ListerWatcher, error) {
		found, err := wire.NewDiscovery(client).Find(ctx, "lakes")
		if err != nil {
			return nil, err // the informer asks again
		}
		return clientgo.NewListWatch(client, wire.Unstructured(found.Resource), clientgo.ListWatchOptions{})
	})
	informer := clientgo.NewSharedInformer(lw, &unstructured.Unstructured{}, 0)

	lakes := object.Resource{Group: "example.com", Version: "v1", Resource: "lakes", Kind: "Lake", Namespaced: true}
	_ = server.Define(apiserver.Definition{Resource: lakes})
	_, _ = server.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Lake", "metadata": map[string]any{"namespace": "alps", "name": "blue"},
	}})
	defer run(informer)()
	fmt.Println(informer.GetStore().ListKeys())
	// Output: [alps/blue]
}
