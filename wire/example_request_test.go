package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// May a user delete pods? A review stores nothing, so it may be sent again after a lost connection
// although it is a POST.
func ExampleRequest() {
	c, stop := apiServer()
	defer stop()
	review := []byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
		"spec":{"resourceAttributes":{"namespace":"shop","verb":"delete","resource":"pods"}}}`)
	res, err := c.Request("POST").AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		Header("Impersonate-User", "ada").Body("application/json", review).Idempotent().Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var answer authorizationv1.SelfSubjectAccessReview
	err = res.Into(&answer)
	fmt.Println(answer.Status.Allowed, err)
	// Output: true <nil>
}

// Raw is for responses that are no objects.
func ExampleResult() {
	c, closeServer := exampleServer(map[string]string{"GET /readyz": "ok"})
	defer closeServer()
	res, err := c.Request(wire.VerbGet).AbsPath("/readyz").Params(url.Values{"exclude": {"etcd"}}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d %s\n", res.Code, res.Raw())
	// Output: 200 ok
}

// get is a request for typed objects with a parameter that API does not have.
func get[T any](ctx context.Context, c *wire.Client, res wire.Resource[T], key object.Key) (T, error) {
	obj := res.New()
	result, err := c.Request(wire.VerbGet).Resource(res.Resource).Key(key).
		Accept(res.Accept(wire.VerbGet)).Param("pretty", "false").Do(ctx)
	if err != nil {
		return obj, err
	}
	return obj, result.Into(obj)
}

func ExampleResource_New() {
	c, stop := apiServer(shopPod("web", "web"))
	defer stop()
	pod, err := get(context.Background(), c, wire.MustOf[*corev1.Pod](), web)
	fmt.Println(pod.Labels, err)
	meta, err := get(context.Background(), c, wire.Metadata(wire.MustOf[*corev1.Pod]().Resource), web)
	fmt.Println(meta.Labels, err)
	// Output:
	// map[app:web] <nil>
	// map[app:web] <nil>
}

// Valid finds mistakes in a resource before the first request.
func ExampleResource_Valid() {
	fmt.Println(wire.Custom[*Lamp](object.Resource{Group: "home.example", Resource: "lamps", Kind: "Lamp"}).Valid())
	fmt.Println(wire.Custom[*Lamp](lamps).Encoded(wire.Protobuf).Valid())
	fmt.Println(wire.Custom[*Lamp](lamps).Valid())
	// Output:
	// wire: the resource of *wire_test.Lamp needs version, plural and kind; it has version "", plural "lamps", kind "Lamp"
	// wire: *wire_test.Lamp does not support protobuf; use wire.JSON for lamps.home.example
	// <nil>
}

// ResourceOf names an object whose type is only known at run time, as kubectl does.
func ExampleResourceOf() {
	for _, obj := range []metav1.Object{shopPod("web", "web"), webDeployment(), &Lamp{}} {
		if res, ok := wire.ResourceOf(obj); ok {
			fmt.Printf("%s/%s\n", res, obj.GetName())
		} else {
			fmt.Printf("%T is not a built-in kind\n", obj)
		}
	}
	// Output:
	// pods/web
	// deployments.apps/web
	// *wire_test.Lamp is not a built-in kind
}

// Status has the reason and the details of a rejected request.
func ExampleError_Status() {
	c, stop := apiServer()
	defer stop()
	_, err := wire.For(c, wire.MustOf[*corev1.Pod]()).Create(context.Background(), shopPod("Web!", "web"), wire.WriteOptions{})
	var rejected *wire.Error
	if errors.As(err, &rejected) {
		st := rejected.Status()
		fmt.Println(st.Reason, st.Details.Kind, st.Details.Causes[0].Field)
	}
	// Output: Invalid Pod metadata.name
}

// A TransportError means that there was no usable response. Here it is too large.
func ExampleTransportError() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 2<<20))
	}))
	defer s.Close()
	base, _ := url.Parse(s.URL)
	c, err := wire.NewWithTransport(base, nil, wire.Options{MaxBody: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.CloseIdleConnections()
	_, err = c.Request(wire.VerbGet).AbsPath("/metrics").Do(context.Background())
	var failed *wire.TransportError
	if errors.As(err, &failed) && errors.Is(err, wire.ErrBodyTooLarge) {
		fmt.Println(failed.Call, "needs Stream instead of Do:", failed.Err)
	}
	// Output: get /metrics needs Stream instead of Do: response too large: more than 1048576 bytes
}

// Redact is for a program's own logs of what it sends and receives.
func ExampleClient_Redact() {
	c, err := wire.New(&rest.Config{Host: "https://cluster.example", BearerToken: "q8fk2"}, wire.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Redact("curl -H 'X-Auth: q8fk2' https://cluster.example/api"))
	// Output: curl -H 'X-Auth: <redacted>' https://cluster.example/api
}

// A program that decodes a watch itself turns ERROR events into the errors of other requests.
func ExampleClient_StatusError() {
	c, stop := apiServer()
	defer stop()
	r := c.Request(wire.VerbWatch).Resource(wire.MustOf[*corev1.Pod]().Resource).Accept("application/json").
		Param("watch", "true").Param("resourceVersion", "1") // before the server's history
	resp, err := r.Stream(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var event struct {
		Type   string
		Object metav1.Status
	}
	if err := json.NewDecoder(resp.Body).Decode(&event); err == nil && event.Type == "ERROR" {
		err := c.StatusError(r.Call(), &event.Object)
		fmt.Println(err.Code, err)
	}
	// Output: 410 watch pods: too old resource version: 1 (9)
}

// A manifest names a kind; requests need the resource.
func ExampleDiscovery_FindKind() {
	c, stop := apiServer()
	defer stop()
	ctx := context.Background()
	manifest := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": 2}}
	found, err := wire.NewDiscovery(c).FindKind(ctx, manifest["apiVersion"].(string), manifest["kind"].(string))
	if err != nil {
		fmt.Println(err)
		return
	}
	applied, err := wire.For(c, wire.Unstructured(found.Resource)).Apply(ctx, web, manifest, wire.WriteOptions{FieldManager: "shopkeeper"})
	fmt.Println(found.Resource, applied.GetName(), err)
	// Output: deployments.apps web <nil>
}

// All returns what can be discovered, and the groups of aggregated API servers that do not respond.
func ExampleDiscovery_All() {
	c, closeServer := exampleServer(map[string]string{
		"GET /api": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"versions":[{"version":"v1","resources":[
			{"resource":"pods","singularResource":"pod","shortNames":["po"],"scope":"Namespaced","responseKind":{"kind":"Pod"},"verbs":["get","list","watch"]}]}]}]}`,
		"GET /apis": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale"}]}]}`,
	})
	defer closeServer()
	d := wire.NewDiscovery(c)
	all, err := d.All(context.Background())
	for _, r := range all {
		fmt.Println(r.Resource, "can be watched:", slices.Contains(r.Verbs, "watch"))
	}
	var skipped *wire.SkippedGroupsError
	if errors.As(err, &skipped) {
		for group := range skipped.Groups {
			fmt.Println("skipped", group)
		}
		d.Invalidate() // the next call asks the server again
	}
	// Output:
	// pods can be watched: true
	// skipped metrics.k8s.io/v1beta1
}
