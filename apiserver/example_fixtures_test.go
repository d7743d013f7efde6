package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing/fstest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Load accepts os.DirFS("config"), an embed.FS and any other file system.
func ExampleServer_Load() {
	server, stop := running(apiserver.Options{})
	defer stop()
	files := fstest.MapFS{
		"pod.yaml":       {Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {nodeName: node-7}\n")},
		"namespace.yaml": {Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")},
	}
	fmt.Println(server.Load(files))
	fmt.Print(string(server.Dump("pods")))
	// Output:
	// <nil>
	// apiVersion: v1
	// kind: Pod
	// metadata:
	//   name: web
	//   namespace: shop
	// spec:
	//   nodeName: node-7
	// status:
	//   phase: Pending
}

func ExampleServer_LoadYAML() {
	server, stop := running(apiserver.Options{})
	defer stop()
	fmt.Println(server.LoadYAML([]byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: Lake
metadata: {name: b}
`)))
	// Output: apiserver: document 2: unknown kind Lake in v1; is its CustomResourceDefinition missing?
}

func ExampleServer_WaitIdle() {
	server, stop := running(apiserver.Options{})
	defer stop()
	if _, err := server.Create(pod("web")); err != nil { // a controller may react to it
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(server.WaitIdle(ctx, 100*time.Millisecond))
	// Output: <nil>
}

// A suite of Ginkgo logs this in an AfterEach, if the spec failed.
func ExampleServer_RequestLog() {
	server, stop := running(apiserver.Options{})
	defer stop()
	process := server.Process("operator")
	defer process.Kill()
	clients, err := kubernetes.NewForConfig(process.Config())
	if err != nil {
		panic(err)
	}
	for range 2 {
		if _, err := clients.CoreV1().Pods("default").Create(context.Background(), pod("web"), metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
		}
	}
	for line := range strings.Lines(server.RequestLog()) {
		_, request, _ := strings.Cut(line, "s ") // without the time
		fmt.Print(request)
	}
	// Output:
	// pods "web" already exists
	// operator: create pods default: 201
	// operator: create pods default: 409
}

// A process that is killed between two writes: the first write is stored, its answer is lost,
// and the process can do nothing more. A restarted program is another process.
func ExampleServer_Process() {
	server, stop := running(apiserver.Options{})
	defer stop()
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.KillAfter, Verb: "create", Times: 1}); err != nil {
		panic(err)
	}
	create := func(p *apiserver.Process, name string) bool {
		clients, err := kubernetes.NewForConfig(p.Config())
		if err != nil {
			panic(err)
		}
		_, err = clients.CoreV1().Pods("default").Create(context.Background(), pod(name), metav1.CreateOptions{})
		return err == nil
	}
	first, second := server.Process("first"), server.Process("second")
	defer second.Kill()
	fmt.Println(create(first, "a"), create(first, "b"))
	<-first.Killed()
	fmt.Println(create(second, "a"), create(second, "b"))
	// Output:
	// false false
	// false true
}

func ExampleFaultKinds() {
	for _, kind := range apiserver.FaultKinds()[12:16] {
		fmt.Println(kind)
	}
	// Output:
	// conflict
	// already-exists
	// webhook-down
	// leader-lost
}
