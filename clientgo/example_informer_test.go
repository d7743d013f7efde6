package clientgo_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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

// With an index by labels, the cost of a list follows the number of objects that it selects.
func ExampleListAll() {
	pods := clientgo.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{clientgo.LabelIndex: clientgo.LabelIndexFunc})
	for _, key := range []object.Key{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "db"}, {Namespace: "bank", Name: "web"}} {
		_ = pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"app": key.Name},
		}})
	}
	var found []string
	add := func(obj any) { found = append(found, obj.(*corev1.Pod).Namespace) }
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})

	err := clientgo.ListAll(pods, selector, add)
	slices.Sort(found)
	fmt.Println(found, err)
	found = nil
	err = clientgo.ListAllByNamespace(pods, "shop", selector, add)
	fmt.Println(found, err)
	// Output:
	// [bank shop] <nil>
	// [shop] <nil>
}

// A store by itself, without indexes.
func ExampleNewStore() {
	pods := clientgo.NewStore(cache.MetaNamespaceKeyFunc)
	_ = pods.Add(aPod("web", "node-7"))
	pod, exists, err := pods.GetByKey("shop/web")
	fmt.Println(pod.(*corev1.Pod).Spec.NodeName, exists, err)
	// Output: node-7 true <nil>
}
