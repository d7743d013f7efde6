package dynamicinformer_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/dynamicinformer"
	"github.com/tarnproject/tarn/wire"
)

// serving runs a server with two pods; the function that it returns stops it.
func serving() (*apiserver.Server, func()) {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	for _, name := range []string{"web", "db"} {
		_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"note": "long"},
		}})
	}
	return server, func() {
		cancel()
		<-done
	}
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// printPods runs a factory until it has listed the pods, and prints their names and annotations.
func printPods(f dynamicinformer.DynamicSharedInformerFactory) {
	lister := f.ForResource(pods).Lister()
	ctx, cancel := context.WithCancel(context.Background())
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	list, err := lister.List(labels.Everything())
	if err != nil {
		panic(err)
	}
	for _, obj := range list {
		pod, _ := meta.Accessor(obj)
		fmt.Println(pod.GetName(), pod.GetAnnotations())
	}
	cancel()
	f.Shutdown()
}

// An import is another, and the rest of the program stays as it is.
func ExampleNewDynamicSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	client := dynamic.NewForConfigOrDie(server.MemoryConfig())
	printPods(dynamicinformer.NewDynamicSharedInformerFactory(client, time.Minute))
	// Unordered output:
	// web map[note:long]
	// db map[note:long]
}

// The option is Tarn's own: here the factory reads through Tarn's client, and needs no other.
func ExampleOption() {
	server, stop := serving()
	defer stop()
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	options := []dynamicinformer.Option{
		dynamicinformer.WithClient(client),
	}
	printPods(dynamicinformer.NewDynamicSharedInformerFactory(nil, time.Minute, options...))
	// Unordered output:
	// web map[note:long]
	// db map[note:long]
}

// A factory for one namespace and selector.
func ExampleNewFilteredDynamicSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	var web dynamicinformer.TweakListOptionsFunc = func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }
	client := dynamic.NewForConfigOrDie(server.MemoryConfig())
	printPods(dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Minute, "default", web))
	// Output: web map[note:long]
}

// One informer, without a factory.
func ExampleNewFilteredDynamicInformer() {
	server, stop := serving()
	defer stop()
	client := dynamic.NewForConfigOrDie(server.MemoryConfig())
	informer := dynamicinformer.NewFilteredDynamicInformer(client, pods, "default", 0, cache.Indexers{}, nil).Informer()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		informer.RunWithContext(ctx)
		close(done)
	}()
	<-informer.HasSyncedChecker().Done()
	fmt.Println(len(informer.GetStore().List()), "pods")
	cancel()
	<-done
	// Output: 2 pods
}
