package informers_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/informers"
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
		_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}})
	}
	return server, func() {
		cancel()
		<-done
	}
}

// count runs a factory until an informer of it has synced, and returns the number of its objects.
func count(f informers.SharedInformerFactory, informer informers.GenericInformer) int {
	lister := informer.Lister()
	ctx, cancel := context.WithCancel(context.Background())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	f.WaitForCacheSync(ctx.Done())
	list, err := lister.List(labels.Everything())
	if err != nil {
		panic(err)
	}
	return len(list)
}

// An import is another, and the rest of the program stays as it is.
func ExampleNewSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.MemoryConfig()), time.Minute)
	pods, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		panic(err)
	}
	fmt.Println(count(f, pods), "pods")
	// Output: 2 pods
}

// WithClient is Tarn's own option; the others are those of client-go.
func ExampleNewSharedInformerFactoryWithOptions() {
	server, stop := serving()
	defer stop()
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	name, err := cache.NewInformerName("shop") // in metrics
	if err != nil {
		panic(err)
	}
	f := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(server.MemoryConfig()), time.Minute,
		informers.WithClient(client),
		informers.WithInformerName(name),
		informers.WithCustomResyncConfig(map[metav1.Object]time.Duration{&corev1.Node{}: time.Hour}),
	)
	pods, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		panic(err)
	}
	fmt.Println(f.InformerName().Name(), "has", count(f, pods), "pods")
	// Output: shop has 2 pods
}

// A factory for one namespace and selector.
func ExampleNewFilteredSharedInformerFactory() {
	server, stop := serving()
	defer stop()
	clientset := kubernetes.NewForConfigOrDie(server.MemoryConfig())
	f := informers.NewFilteredSharedInformerFactory(clientset, time.Minute, "default", func(o *metav1.ListOptions) { o.LabelSelector = "app=web" })
	pods, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		panic(err)
	}
	fmt.Println(count(f, pods), "pod")
	// Output: 1 pod
}
