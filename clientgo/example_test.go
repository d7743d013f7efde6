package clientgo_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// aServer runs an API server with one pod.
func aServer() (*apiserver.Server, func()) {
	server, err := apiserver.New(apiserver.Options{AnyNamespace: true})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	if _, err := server.Create(aPod("web", "node-7")); err != nil {
		panic(err)
	}
	return server, func() {
		cancel()
		<-done
	}
}

func aPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// run starts an informer or a controller and waits for it; the function that it returns stops it.
func run(inf interface {
	RunWithContext(context.Context)
	HasSyncedChecker() cache.DoneChecker
}) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		inf.RunWithContext(ctx)
	}()
	<-inf.HasSyncedChecker().Done()
	return func() {
		cancel()
		<-done
	}
}

// One word changes: cache.NewSharedIndexInformer.
func ExampleNewSharedIndexInformer() {
	server, close := aServer()
	defer close()
	clients := kubernetes.NewForConfigOrDie(server.MemoryConfig())
	lw := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "pods", "shop", fields.Everything())

	informer := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 10*time.Minute, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
	registration, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
	})
	defer run(informer)()
	<-registration.HasSyncedChecker().Done()
	pods, err := listers.NewPodLister(informer.GetIndexer()).Pods("shop").List(labels.Everything())
	fmt.Println(len(pods), err)
	// Output:
	// added web
	// 1 <nil>
}

// With our client in the place of client-go's closures the wire is used directly.
func ExampleNewListWatch() {
	server, close := aServer()
	defer close()
	client, _ := wire.New(server.MemoryConfig(), wire.Options{})
	lw, err := clientgo.NewListWatch(client, wire.MustOf[*corev1.Pod](), clientgo.ListWatchOptions{
		Namespace: "shop",
		Source:    stream.Options{Drop: []object.FieldPath{object.ManagedFields}},
	})
	if err != nil {
		panic(err)
	}
	informer := clientgo.NewSharedInformer(lw, &corev1.Pod{}, 0)
	defer run(informer)()
	fmt.Println(informer.GetStore().ListKeys())
	// Output: [shop/web]
}
