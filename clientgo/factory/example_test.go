package factory_test

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
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/internal/sample"
	"github.com/tarnproject/tarn/wire"
)

// serving runs a server; the function that it returns stops it.
func serving() (*apiserver.Server, func()) {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	return server, func() {
		cancel()
		<-done
	}
}

// A generated factory reads through Tarn's client: one more line for each type. Package sample is
// what client-gen, informer-gen and lister-gen generate for a custom resource.
func ExampleFrom() {
	server, stop := serving()
	defer stop()
	_ = server.Define(apiserver.Definition{Resource: foos})
	clientset, err := sample.NewForConfig(server.MemoryConfig())
	if err != nil {
		panic(err)
	}
	web := &sample.Foo{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := clientset.SamplecontrollerV1alpha1().Foos("default").Create(context.Background(), web, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	informers := sample.NewSharedInformerFactory(clientset, time.Minute)
	informers.InformerFor(&sample.Foo{}, factory.From[sample.Interface](client, wire.Custom[*sample.Foo](foos), factory.Options{}))

	ctx, cancel := context.WithCancel(context.Background())
	informers.StartWithContext(ctx)
	<-informers.Foos().Informer().HasSyncedChecker().Done()
	list, err := informers.Foos().Lister().List(labels.Everything())
	fmt.Println(len(list), list[0].Name, err)
	cancel()
	informers.Shutdown()
	// Output: 1 web <nil>
}

// A typed client is all that an informer needs.
func ExampleListWatch() {
	server, stop := serving()
	defer stop()
	_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}})
	_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}})
	clientset := kubernetes.NewForConfigOrDie(server.MemoryConfig())
	lw := factory.ListWatch(clientset, clientset.CoreV1().Pods("default"), func(o *metav1.ListOptions) { o.LabelSelector = "app=web" })

	informer := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		informer.RunWithContext(ctx)
		close(done)
	}()
	<-informer.HasSyncedChecker().Done()
	fmt.Println(informer.GetStore().ListKeys())
	cancel()
	<-done
	// Output: [default/web]
}
