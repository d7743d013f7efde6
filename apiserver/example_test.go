package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// running starts a server and returns a function that stops it. Tests call apiserver.Start
// instead.
func running(opts apiserver.Options) (*apiserver.Server, func()) {
	server, err := apiserver.New(opts)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	return server, func() {
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

func Example() {
	server, stop := running(apiserver.Options{})
	defer stop()
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	pods := clients.CoreV1().Pods("default")
	made, err := pods.Create(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	fmt.Println(made.Name, made.ResourceVersion, made.Status.Phase, err)
	list, err := pods.List(context.Background(), metav1.ListOptions{})
	fmt.Println(len(list.Items), "pod at", list.ResourceVersion, err)
	// Output:
	// web 14 Pending <nil>
	// 1 pod at 14 <nil>
}

func ExampleServer_Inject() {
	server, stop := running(apiserver.Options{})
	defer stop()
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.TooManyRequests, Resource: "pods", Verb: "list", Times: 1}); err != nil {
		panic(err)
	}
	cfg := server.MemoryConfig()
	for range 2 {
		req, _ := http.NewRequest(http.MethodGet, cfg.Host+"/api/v1/pods", nil)
		resp, err := cfg.Transport.RoundTrip(req)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Retry-After"))
	}
	// Output:
	// 429 Too Many Requests 1
	// 200 OK
}

func ExampleServer_Define() {
	server, stop := running(apiserver.Options{})
	defer stop()
	err := server.Define(apiserver.Definition{
		Resource: object.Resource{Group: "example.com", Version: "v1", Resource: "lakes", Kind: "Lake", Namespaced: true},
	})
	fmt.Println(err)
	made, err := server.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Lake", "metadata": map[string]any{"name": "blue"},
	}})
	fmt.Println(made.(*unstructured.Unstructured).GetNamespace(), err)
	// Output:
	// <nil>
	// default <nil>
}

func ExampleServer_Compact() {
	server, stop := running(apiserver.Options{})
	defer stop()
	server.Compact(0)
	cfg := server.MemoryConfig()
	req, _ := http.NewRequest(http.MethodGet, cfg.Host+"/api/v1/watch/pods?resourceVersion=11", nil)
	resp, err := cfg.Transport.RoundTrip(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	fmt.Println(resp.Status)
	fmt.Println(lines.Text())
	// Output:
	// 200 OK
	// {"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 11 (13)","reason":"Expired","code":410}}
}

func ExampleServer_Rewind() {
	server, stop := running(apiserver.Options{})
	defer stop()
	if _, err := server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		panic(err)
	}
	fmt.Println(server.Version())
	fmt.Println(server.Rewind(1))
	// Output:
	// 14
	// 13
}
