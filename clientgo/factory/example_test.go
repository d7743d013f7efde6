package factory_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory"
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

// A generated factory reads through Tarn's client: one more line for each type. client-go's own factory is generated as
// those of custom resources are.
func ExampleFrom() {
	server, stop := serving()
	defer stop()
	_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	generated := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.MemoryConfig()), time.Minute)
	generated.InformerFor(&corev1.Pod{}, factory.From[kubernetes.Interface](client, wire.MustOf[*corev1.Pod](), factory.Options{}))

	pods := generated.Core().V1().Pods()
	ctx, cancel := context.WithCancel(context.Background())
	generated.StartWithContext(ctx)
	<-pods.Informer().HasSyncedChecker().Done()
	list, err := pods.Lister().List(labels.Everything())
	fmt.Println(len(list), list[0].Name, err)
	cancel()
	generated.Shutdown()
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
