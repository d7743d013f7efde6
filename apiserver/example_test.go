package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"

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
		fmt.Printf("%s %q\n", resp.Status, resp.Header.Get("Retry-After"))
	}
	fmt.Println(server.Injected(apiserver.TooManyRequests), "request failed,", len(server.Faults()), "faults are left")
	// Output:
	// 429 Too Many Requests "1"
	// 200 OK ""
	// 1 request failed, 0 faults are left
}

// Faults may come from a file. Validate names what is wrong with one before the server runs.
func ExampleFault_Validate() {
	var faults []apiserver.Fault
	err := json.Unmarshal([]byte(`[{"kind":"gone","verb":"watch","times":2},{"kind":"gone","times":-1},{"kind":"gone","verb":"post"}]`), &faults)
	if err != nil {
		panic(err)
	}
	for _, f := range faults {
		fmt.Println(f.Kind, f.Times, f.Validate())
	}
	// Output:
	// gone 2 <nil>
	// gone -1 apiserver: fault gone: times, for, after and wait must not be negative
	// gone 0 apiserver: fault gone: unknown verb "post": must be one of [get list watch write create update patch delete deletecollection]
}

// An API server restarts: clients cannot reach it for a while.
func ExampleServer_RefuseConnections() {
	server, stop := running(apiserver.Options{})
	defer stop()
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	for _, down := range []bool{true, false} {
		server.RefuseConnections(down)
		_, err := clients.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		fmt.Println(errors.Is(err, syscall.ECONNREFUSED), err == nil)
	}
	// Output:
	// true false
	// false true
}

// Cut ends watches as a proxy does that closes connections.
func ExampleServer_Watches() {
	server, stop := running(apiserver.Options{})
	defer stop()
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	watch, err := clients.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	defer watch.Stop()
	fmt.Println(server.Watches("pods"), server.Watches("nodes"))
	fmt.Println(server.Cut("pods"))
	_, open := <-watch.ResultChan()
	fmt.Println(open)
	// Output:
	// 1 0
	// 1
	// false
}

// suite stands for the test of another framework. GinkgoT() returns such a value.
type suite struct{ cleanups []func() }

func (s *suite) Helper()                           {}
func (s *suite) Cleanup(f func())                  { s.cleanups = append(s.cleanups, f) }
func (s *suite) Errorf(format string, args ...any) { fmt.Printf("failed: "+format+"\n", args...) }
func (s *suite) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (s *suite) end() {
	for _, f := range s.cleanups {
		f()
	}
}

// Start needs only a part of a *testing.T, so that it works with other test frameworks.
func ExampleStart() {
	suite := &suite{}
	var t apiserver.TB = suite
	server := apiserver.Start(t, apiserver.Options{})
	made, err := server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	fmt.Println(made.(*corev1.Namespace).Name, err)
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"}); err != nil {
		t.Fatalf("%v", err)
	}
	suite.end() // stops the server
	// Output:
	// shop <nil>
	// failed: apiserver: fault {Kind:forbidden Resource:secrets Verb: Times:0 For:0s After:0 Wait:0s Optional:false} did not hit any request; set Optional if that is expected
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

	server.Undefine("example.com", "lakes") // as if its CustomResourceDefinition was deleted
	_, err = server.Create(made)
	fmt.Println(err)
	// Output:
	// <nil>
	// default <nil>
	// apiserver: the kind example.com/v1, Kind=Lake is not served
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
