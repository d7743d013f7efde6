package clientgo_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
)

// A consumer receives all changes of a key at once, in order.
func ExampleNewDeltaFIFOWithOptions() {
	fifo := clientgo.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		Transformer: func(obj any) (any, error) {
			pod := obj.(*corev1.Pod).DeepCopy()
			pod.Spec.NodeName = ""
			return pod, nil
		},
	})
	_ = fifo.Add(aPod("web", "node-7"))
	_, err := fifo.Pop(func(obj any, initial bool) error {
		key, err := fifo.KeyOf(obj)
		fmt.Printf("%s on node %q\n", key, obj.(cache.Deltas).Newest().Object.(*corev1.Pod).Spec.NodeName)
		return err
	})
	fmt.Println(err)

	// An object from elsewhere, in the form of those in the queue.
	live, err := fifo.Transformer()(aPod("db", "node-3"))
	fmt.Printf("%q %v\n", live.(*corev1.Pod).Spec.NodeName, err)
	// Output:
	// shop/web on node ""
	// <nil>
	// "" <nil>
}

// ListAndWatch is for a program that decides itself what follows when a list fails.
func ExampleNewNamedReflector() {
	server, stopServer := aServer()
	defer stopServer()
	fifo := clientgo.NewDeltaFIFO(cache.MetaNamespaceKeyFunc, nil)
	r := clientgo.NewNamedReflector("audit", podsOf(server), &corev1.Pod{}, fifo, 0)

	remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods"})
	if err != nil {
		panic(err)
	}
	err = r.ListAndWatchWithContext(context.Background())
	fmt.Println(r.Name(), "lists", r.TypeDescription(), "forbidden:", apierrors.IsForbidden(err))
	remove()

	stop, done := make(chan struct{}), make(chan error)
	go func() { done <- r.ListAndWatch(stop) }()
	_, _ = fifo.Pop(func(obj any, _ bool) error {
		key, err := fifo.KeyOf(obj)
		fmt.Println(key)
		return err
	})
	close(stop)
	fmt.Println(<-done)
	// Output:
	// audit lists *v1.Pod forbidden: true
	// shop/web
	// <nil>
}

// follow runs a reflector until its store is up to date. The function that it returns stops it.
func follow(r *clientgo.Reflector) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.RunWithContext(ctx) })
	for r.LastSyncResourceVersion() == "" {
		runtime.Gosched()
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// A reflector and the indexer that it feeds.
func ExampleNewNamespaceKeyedIndexerAndReflector() {
	server, stopServer := aServer()
	defer stopServer()
	pods, r := clientgo.NewNamespaceKeyedIndexerAndReflector(podsOf(server), &corev1.Pod{}, 0)
	defer follow(r)()
	keys, err := pods.IndexKeys(cache.NamespaceIndex, "shop")
	fmt.Println(keys, err)
	// Output: [shop/web] <nil>
}

// The options are those of client-go.
func ExampleNewReflectorWithOptions() {
	server, stopServer := aServer()
	defer stopServer()
	pods := clientgo.NewStore(cache.MetaNamespaceKeyFunc)
	r := clientgo.NewReflectorWithOptions(podsOf(server), &corev1.Pod{}, pods, cache.ReflectorOptions{
		Name: "audit", TypeDescription: "pods of the shop",
	})
	r.WatchListPageSize = 100
	defer follow(r)()
	fmt.Println(r.Name(), "has", len(pods.List()), r.TypeDescription())
	// Output: audit has 1 pods of the shop
}
