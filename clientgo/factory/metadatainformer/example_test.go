package metadatainformer_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/metadatainformer"
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
func printPods(f metadatainformer.SharedInformerFactory) {
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
func ExampleNewSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	client := metadata.NewForConfigOrDie(server.MemoryConfig())
	printPods(metadatainformer.NewSharedInformerFactory(client, time.Minute))
	// Unordered output:
	// web map[note:long]
	// db map[note:long]
}

// WithClient is Tarn's own option: here the factory reads through Tarn's client, and needs no other.
func ExampleNewSharedInformerFactoryWithOptions() {
	server, stop := serving()
	defer stop()
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	options := []metadatainformer.SharedInformerOption{
		metadatainformer.WithClient(client),
		metadatainformer.WithTransform(func(obj any) (any, error) {
			obj.(*metav1.PartialObjectMetadata).Annotations = nil
			return obj, nil
		}),
	}
	printPods(metadatainformer.NewSharedInformerFactoryWithOptions(nil, time.Minute, options...))
	// Unordered output:
	// web map[]
	// db map[]
}

// A factory for one namespace and selector.
func ExampleNewFilteredSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	var web metadatainformer.TweakListOptionsFunc = func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }
	client := metadata.NewForConfigOrDie(server.MemoryConfig())
	printPods(metadatainformer.NewFilteredSharedInformerFactory(client, time.Minute, "default", web))
	// Output: web map[note:long]
}

// One informer, without a factory.
func ExampleNewFilteredMetadataInformer() {
	server, stop := serving()
	defer stop()
	client := metadata.NewForConfigOrDie(server.MemoryConfig())
	informer := metadatainformer.NewFilteredMetadataInformer(client, pods, "default", 0, cache.Indexers{}, nil).Informer()
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
