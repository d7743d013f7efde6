package workloads_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

// A Deployment in a program, with pods that crash. Tests call workloads.Start instead.
func Example() {
	server, err := apiserver.New(apiserver.Options{CollectGarbage: true})
	if err != nil {
		panic(err)
	}
	w, err := workloads.New(server.MemoryConfig(), workloads.Options{StartLatency: -1})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- server.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		fmt.Println(<-ended, <-ended)
	}()

	if _, err := server.Create(newDeployment("web", 3)); err != nil {
		panic(err)
	}
	clients, err := kubernetes.NewForConfig(server.MemoryConfig())
	if err != nil {
		panic(err)
	}
	waitFor(ctx, clients, func(pod *corev1.Pod) bool { return stateOf(pod) == "Ready" })
	fmt.Println("a pod is ready")

	remove, err := w.Inject(workloads.Failure{Kind: workloads.Crash, Selector: "app=web"})
	if err != nil {
		panic(err)
	}
	defer remove()
	waitFor(ctx, clients, func(pod *corev1.Pod) bool { return stateOf(pod) == "CrashLoopBackOff" })
	fmt.Println("a pod crashed")
	// Output:
	// a pod is ready
	// a pod crashed
	// <nil> <nil>
}

// waitFor watches pods until one is in a state.
func waitFor(ctx context.Context, clients *kubernetes.Clientset, state func(*corev1.Pod) bool) {
	watch, err := clients.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && state(pod) {
			return
		}
	}
}
