package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// exampleServer serves responses from a table: "GET /path" to a body, which starts with a status
// code if it is not 200.
func exampleServer(answers map[string]string) (*wire.Client, func()) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if text, found := strings.CutPrefix(body, "404 "); found {
			w.WriteHeader(http.StatusNotFound)
			body = text
		}
		io.WriteString(w, body)
	}))
	base, _ := url.Parse(s.URL)
	c, err := wire.NewWithTransport(base, nil, wire.Options{})
	if err != nil {
		panic(err)
	}
	return c, func() { c.CloseIdleConnections(); s.Close() }
}

const webPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","resourceVersion":"7"},"spec":{"nodeName":"node-1"}}`

var web = object.Key{Namespace: "shop", Name: "web"}

func ExampleNew() {
	// Usually from clientcmd.BuildConfigFromFlags or rest.InClusterConfig.
	cfg := &rest.Config{Host: "https://cluster.example:6443", BearerToken: "…"}
	c, err := wire.New(cfg, wire.Options{UserAgent: "shopkeeper/2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Host())
	// Output: cluster.example:6443
}

func ExampleNewWithTransport() {
	base, _ := url.Parse("https://cluster.example/prefix")
	c, err := wire.NewWithTransport(base, wire.NewTransport(nil), wire.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, _ := c.Request(wire.VerbGet).AbsPath("/healthz").URL()
	fmt.Println(u)
	// Output: https://cluster.example/prefix/healthz
}

func ExampleOf() {
	deployments, err := wire.Of[*appsv1.Deployment]()
	fmt.Println(deployments.Resource, deployments.Version, deployments.Encoding(), err)
	_, err = wire.Of[*Lamp]()
	fmt.Println(err)
	// Output:
	// deployments.apps v1 protobuf <nil>
	// wire: *wire_test.Lamp is not a built-in kind and has no method APIResource; use wire.Custom, wire.Unstructured or wire.Metadata
}

// Lamp is a custom resource.
type Lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Watts int64 `json:"watts"`
	} `json:"spec"`
}

var lamps = object.Resource{Group: "home.example", Version: "v1", Resource: "lamps", Kind: "Lamp", Namespaced: true}

const deskLamp = `{"apiVersion":"home.example/v1","kind":"Lamp","metadata":{"namespace":"home","name":"desk","labels":{"room":"study"}},"spec":{"watts":40}}`

func ExampleCustom() {
	c, closeServer := exampleServer(map[string]string{"GET /apis/home.example/v1/namespaces/home/lamps/desk": deskLamp})
	defer closeServer()
	lamp, err := wire.For(c, wire.Custom[*Lamp](lamps)).Get(context.Background(), object.Key{Namespace: "home", Name: "desk"}, wire.GetOptions{})
	fmt.Println(lamp.Spec.Watts, err)
	// Output: 40 <nil>
}

func ExampleUnstructured() {
	c, closeServer := exampleServer(map[string]string{"GET /apis/home.example/v1/namespaces/home/lamps/desk": deskLamp})
	defer closeServer()
	lamp, err := wire.For(c, wire.Unstructured(lamps)).Get(context.Background(), object.Key{Namespace: "home", Name: "desk"}, wire.GetOptions{})
	fmt.Println(lamp.GetKind(), lamp.Object["spec"], err)
	// Output: Lamp map[watts:40] <nil>
}

func ExampleMetadata() {
	c, closeServer := exampleServer(map[string]string{"GET /apis/home.example/v1/namespaces/home/lamps/desk": deskLamp})
	defer closeServer()
	lamp, err := wire.For(c, wire.Metadata(lamps)).Get(context.Background(), object.Key{Namespace: "home", Name: "desk"}, wire.GetOptions{})
	fmt.Println(lamp.Labels, err)
	// Output: map[room:study] <nil>
}

func ExampleResource_Encoded() {
	pods := wire.MustOf[*corev1.Pod]()
	fmt.Println(pods.Encoding(), pods.Encoded(wire.JSON).Encoding())
	// Output: protobuf json
}

func ExampleAPI_Get() {
	c, closeServer := exampleServer(map[string]string{
		"GET /api/v1/namespaces/shop/pods/web":  webPod,
		"GET /api/v1/namespaces/shop/pods/shed": `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"pods \"shed\" not found"}`,
	})
	defer closeServer()
	pods := wire.For(c, wire.MustOf[*corev1.Pod]())

	pod, err := pods.Get(context.Background(), web, wire.GetOptions{})
	fmt.Println(pod.Spec.NodeName, err)

	_, err = pods.Get(context.Background(), object.Key{Namespace: "shop", Name: "shed"}, wire.GetOptions{})
	fmt.Println(apierrors.IsNotFound(err), err)
	// Output:
	// node-1 <nil>
	// true get pods shop/shed: pods "shed" not found
}

func ExampleAPI_Create() {
	c, closeServer := exampleServer(map[string]string{"POST /api/v1/namespaces/shop/pods": webPod})
	defer closeServer()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-"}}
	stored, err := wire.For(c, wire.MustOf[*corev1.Pod]()).Create(context.Background(), pod, wire.WriteOptions{
		FieldManager: "shopkeeper", Validation: wire.ValidateStrict,
	})
	fmt.Println(stored.Name, stored.ResourceVersion, err)
	// Output: web 7 <nil>
}

func ExampleAPI_Patch() {
	c, closeServer := exampleServer(map[string]string{"PATCH /api/v1/namespaces/shop/pods/web": webPod})
	defer closeServer()
	pods := wire.For(c, wire.MustOf[*corev1.Pod]())
	label := wire.MergePatchOf(map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "front"}}})
	_, err := pods.Patch(context.Background(), web, label, wire.WriteOptions{DryRun: true})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleAPI_Apply() {
	c, closeServer := exampleServer(map[string]string{"PATCH /api/v1/namespaces/shop/pods/web": webPod})
	defer closeServer()
	config := map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "front"}}}
	_, err := wire.For(c, wire.MustOf[*corev1.Pod]()).Apply(context.Background(), web, config, wire.WriteOptions{FieldManager: "shopkeeper", Force: true})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleAPI_Delete() {
	c, closeServer := exampleServer(map[string]string{"DELETE /api/v1/namespaces/shop/pods/web": `{"kind":"Status","apiVersion":"v1","status":"Success"}`})
	defer closeServer()
	err := wire.For(c, wire.MustOf[*corev1.Pod]()).Delete(context.Background(), web, wire.DeleteOptions{
		UID: "7c0f", Propagation: wire.Foreground,
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleAPI_Open() {
	c, closeServer := exampleServer(map[string]string{"GET /api/v1/namespaces/shop/pods/web/log": "hello\nworld\n"})
	defer closeServer()
	log, err := wire.For(c, wire.MustOf[*corev1.Pod]()).Open(context.Background(), web, "log", url.Values{"follow": {"true"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	io.Copy(os.Stdout, log)
	// Output:
	// hello
	// world
}

func ExampleSubresourceOf() {
	c, closeServer := exampleServer(map[string]string{
		"GET /apis/apps/v1/namespaces/shop/deployments/web/scale": `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":3}}`,
	})
	defer closeServer()
	scales := wire.SubresourceOf[*autoscalingv1.Scale](wire.For(c, wire.MustOf[*appsv1.Deployment]()), "scale")
	scale, err := scales.Get(context.Background(), web, wire.GetOptions{})
	fmt.Println(scale.Spec.Replicas, err)
	// Output: 3 <nil>
}

func ExampleDiscovery_Find() {
	c, closeServer := exampleServer(map[string]string{
		"GET /api": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"versions":[{"version":"v1","resources":[
			{"resource":"pods","singularResource":"pod","shortNames":["po"],"scope":"Namespaced","responseKind":{"kind":"Pod"},"verbs":["get","list","watch"]}]}]}]}`,
	})
	defer closeServer()
	d := wire.NewDiscovery(c)
	pods, err := d.Find(context.Background(), "po")
	fmt.Println(pods.Resource, pods.Kind, pods.Namespaced, err)
	_, err = d.Find(context.Background(), "podz")
	fmt.Println(err)
	// Output:
	// pods Pod true <nil>
	// no resource "podz"; did you mean pods?
}

func ExampleClient_Request() {
	c, closeServer := exampleServer(map[string]string{"GET /version": `{"major":"1","minor":"35"}`})
	defer closeServer()
	res, err := c.Request(wire.VerbGet).AbsPath("/version").Timeout(time.Minute).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var version struct {
		Major string `json:"major"`
		Minor string `json:"minor"`
	}
	err = res.Into(&version)
	fmt.Println(version.Major, version.Minor, err)
	// Output: 1 35 <nil>
}

func ExampleRequest_Stream() {
	c, closeServer := exampleServer(map[string]string{"GET /api/v1/nodes/n1/proxy/metrics": "up 1\n"})
	defer closeServer()
	nodes := wire.MustOf[*corev1.Node]()
	resp, err := c.Request(wire.VerbGet).Resource(nodes.Resource).Key(object.Key{Name: "n1"}).Subresource("proxy/metrics").Accept("text/plain").Stream(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
	// Output: up 1
}

func ExampleError() {
	c, closeServer := exampleServer(nil)
	defer closeServer()
	_, err := wire.For(c, wire.MustOf[*corev1.Pod]()).Get(context.Background(), web, wire.GetOptions{})
	var refused *wire.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Verb, refused.Resource, refused.Key, refused.Code)
	}
	fmt.Println(err)
	// Output:
	// get pods shop/web 404
	// get pods shop/web: the server returned 404 Not Found: "404 page not found"
}

func ExampleOptions_warnings() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "v1 ComponentStatus is deprecated in v1.19+"`)
	}))
	defer s.Close()
	base, _ := url.Parse(s.URL)
	c, _ := wire.NewWithTransport(base, nil, wire.Options{
		Warnings: func(w wire.Warning) { fmt.Println("warning:", w.Text) },
	})
	defer c.CloseIdleConnections()
	for range 3 {
		c.Request(wire.VerbGet).AbsPath("/api/v1/componentstatuses").Do(context.Background())
	}
	// Output: warning: v1 ComponentStatus is deprecated in v1.19+
}

func ExampleOptions_shared() {
	// Both clients together send at most 20 requests per second.
	limiter := wire.NewLimiter(20, 40)
	for _, host := range []string{"one.example", "two.example"} {
		c, err := wire.New(&rest.Config{Host: "https://" + host}, wire.Options{
			Limiter: limiter, Retry: wire.Retry{Max: 3},
		})
		fmt.Println(c.Host(), err)
	}
	// Output:
	// one.example <nil>
	// two.example <nil>
}
