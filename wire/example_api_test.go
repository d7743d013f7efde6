package wire_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// apiServer runs an API server with the given objects. It returns a client for it and a function
// that stops it.
func apiServer(objs ...runtime.Object) (*wire.Client, func()) {
	s, err := apiserver.New(apiserver.Options{AnyNamespace: true})
	if err != nil {
		panic(err)
	}
	for _, obj := range objs {
		if _, err := s.Create(obj); err != nil {
			panic(err)
		}
	}
	c, err := wire.New(s.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return c, func() {
		cancel()
		<-done
	}
}

func shopPod(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{"app": app},
	}}
}

func webDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
}

// Spec and status are updated separately. An update of an older version is a conflict.
func ExampleAPI_Update() {
	c, stop := apiServer(webDeployment())
	defer stop()
	ctx := context.Background()
	deployments := wire.For(c, wire.MustOf[*appsv1.Deployment]())
	old, err := deployments.Get(ctx, web, wire.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scaled := old.DeepCopy()
	scaled.Spec.Replicas = new(int32(3))
	scaled, err = deployments.Update(ctx, scaled, wire.WriteOptions{FieldManager: "shopkeeper"})
	fmt.Println(*scaled.Spec.Replicas, "replicas", err)

	scaled.Status.ReadyReplicas = 2
	scaled, err = deployments.UpdateStatus(ctx, scaled, wire.WriteOptions{})
	fmt.Println(scaled.Status.ReadyReplicas, "ready", err)

	_, err = deployments.Update(ctx, old, wire.WriteOptions{})
	fmt.Println("conflict:", apierrors.IsConflict(err))
	// Output:
	// 3 replicas <nil>
	// 2 ready <nil>
	// conflict: true
}

// A leader must not write after its lease has expired, not even by a retry.
func ExampleCheckAttempts() {
	c, stop := apiServer(webDeployment())
	defer stop()
	deployments := wire.For(c, wire.MustOf[*appsv1.Deployment]())
	leading, errNotLeading := true, errors.New("the lease has expired")
	ctx := wire.CheckAttempts(context.Background(), func() error {
		if !leading {
			return errNotLeading
		}
		return nil
	})
	pause := wire.MergePatchOf(map[string]any{"spec": map[string]any{"paused": true}})
	d, err := deployments.Patch(ctx, web, pause, wire.WriteOptions{})
	fmt.Println(d.Spec.Paused, err)

	leading = false
	err = deployments.Delete(ctx, web, wire.DeleteOptions{})
	fmt.Println(errors.Is(err, errNotLeading), err)
	// Output:
	// true <nil>
	// true delete deployments.apps shop/web: the lease has expired
}

// The UID distinguishes the deleted object from a new one of the same name.
func ExampleAPI_DeleteReturning() {
	c, stop := apiServer(shopPod("web", "web"))
	defer stop()
	ctx := context.Background()
	pods := wire.For(c, wire.MustOf[*corev1.Pod]())
	deleted, err := pods.DeleteReturning(ctx, web, wire.DeleteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = pods.Create(ctx, shopPod("web", "web"), wire.WriteOptions{}) // by another client
	now, err := pods.Get(ctx, web, wire.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		fmt.Println("deleted")
	case err == nil && now.UID != deleted.UID:
		fmt.Println("deleted, and created again")
	default:
		fmt.Println("not deleted yet:", err)
	}
	// Output: deleted, and created again
}

func ExampleAPI_DeleteCollection() {
	c, stop := apiServer(shopPod("web-1", "web"), shopPod("web-2", "web"), shopPod("db", "db"))
	defer stop()
	ctx := context.Background()
	pods := wire.For(c, wire.MustOf[*corev1.Pod]())
	err := pods.DeleteCollection(ctx, object.Selection{Namespace: "shop", Labels: "app=web"}, wire.DeleteOptions{})
	fmt.Println(err)
	for _, name := range []string{"web-1", "web-2", "db"} {
		_, err := pods.Get(ctx, object.Key{Namespace: "shop", Name: name}, wire.GetOptions{})
		fmt.Println(name, "exists:", err == nil)
	}
	// Output:
	// <nil>
	// web-1 exists: false
	// web-2 exists: false
	// db exists: true
}

// printTable prints the objects of any resource as the server formats them for kubectl.
func printTable[T any](ctx context.Context, api *wire.API[T]) error {
	res, err := api.Client().Request(wire.VerbList).Resource(api.Resource().Resource).Param("limit", "500").
		Accept("application/json;as=Table;g=meta.k8s.io;v=v1").Retries(2).Do(ctx)
	if err != nil {
		return err
	}
	var table metav1.Table
	if err := res.Into(&table); err != nil {
		return err
	}
	for _, row := range table.Rows {
		fmt.Println(row.Cells[0], row.Cells[2])
	}
	return nil
}

// A function for any resource makes its own requests from an API's client and resource.
func ExampleAPI_Client() {
	c, stop := apiServer(shopPod("web", "web"), shopPod("db", "db"))
	defer stop()
	if err := printTable(context.Background(), wire.For(c, wire.MustOf[*corev1.Pod]())); err != nil {
		fmt.Println(err)
	}
	// Output:
	// db Pending
	// web Pending
}

// Three formats of the same change. A merge patch would have to repeat the whole list of containers.
func ExamplePatch() {
	d := webDeployment()
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "shop:1"}, {Name: "log", Image: "log:1"}}
	c, stop := apiServer(d)
	defer stop()
	deployments := wire.For(c, wire.MustOf[*appsv1.Deployment]())
	for _, patch := range []wire.Patch{
		wire.StrategicPatch([]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"shop:2"}]}}}}`)),
		wire.JSONPatch([]byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"shop:3"}]`)),
		wire.MergePatch([]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"shop:4"}]}}}}`)),
	} {
		d, err := deployments.Patch(context.Background(), web, patch, wire.WriteOptions{})
		fmt.Println(d.Spec.Template.Spec.Containers[0].Image, len(d.Spec.Template.Spec.Containers), err)
	}
	// Output:
	// shop:2 2 <nil>
	// shop:3 2 <nil>
	// shop:4 1 <nil>
}

// A scale is read, replaced and patched like an object.
func ExampleSubresource_Update() {
	c, stop := apiServer(webDeployment())
	defer stop()
	ctx := context.Background()
	scales := wire.SubresourceOf[*autoscalingv1.Scale](wire.For(c, wire.MustOf[*appsv1.Deployment]()), "scale")
	scale, err := scales.Get(ctx, web, wire.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scale.Spec.Replicas++
	scale, err = scales.Update(ctx, web, scale, wire.WriteOptions{})
	fmt.Println(scale.Spec.Replicas, err)
	scale, err = scales.Patch(ctx, web, wire.MergePatch([]byte(`{"spec":{"replicas":5}}`)), wire.WriteOptions{})
	fmt.Println(scale.Spec.Replicas, err)
	// Output:
	// 2 <nil>
	// 5 <nil>
}

// An eviction deletes a pod, unless a PodDisruptionBudget forbids it.
func ExampleSubresource_Create() {
	c, stop := apiServer(shopPod("web", "web"))
	defer stop()
	pods := wire.For(c, wire.MustOf[*corev1.Pod]())
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}
	_, err := wire.SubresourceOf[*policyv1.Eviction](pods, "eviction").Create(context.Background(), web, eviction, wire.WriteOptions{})
	fmt.Println(err)
	_, err = pods.Get(context.Background(), web, wire.GetOptions{})
	fmt.Println(err)
	// Output:
	// <nil>
	// get pods shop/web: pods "web" not found
}

// A delete with options that DeleteOptions does not have.
func ExampleResult_Deletion() {
	c, stop := apiServer(shopPod("web", "web"))
	defer stop()
	body := []byte(`{"apiVersion":"v1","kind":"DeleteOptions","orphanDependents":false}`)
	result, err := c.Request(wire.VerbDelete).Resource(wire.MustOf[*corev1.Pod]().Resource).Key(web).
		Body("application/json", body).Accept("application/json").Do(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Deletion().UID != "")
	// Output: true
}
