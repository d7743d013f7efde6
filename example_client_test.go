package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// The verbs of a client, and options of single writes.
func ExampleClient() {
	_, options, end := demo()
	defer end()
	cluster := must(tarn.Connect(options, tarn.WithFieldManager("example")))
	client := must(tarn.MirrorOf[*corev1.Pod](cluster)).Client()
	ctx, stop := run(cluster)
	defer stop()

	must(client.Create(ctx, pod("shop", "web", "node-7"), tarn.DryRun())) // validated, not stored
	web := must(client.Create(ctx, pod("shop", "web", "node-7"), tarn.Strict(), tarn.FieldManager("setup")))
	web.Status.Phase = corev1.PodPending
	must(client.UpdateStatus(ctx, web))
	running := wire.MergePatchOf(map[string]any{"status": map[string]any{"phase": corev1.PodRunning}})
	must(client.PatchStatus(ctx, key("shop", "web"), running))
	about := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	must(client.ApplyStatus(ctx, &corev1.Pod{ObjectMeta: about, Status: corev1.PodStatus{Message: "fine"}}))

	cached := must(client.Get(ctx, key("shop", "web"))) // has all of these writes
	asked := must(client.GetUncached(ctx, key("shop", "web")))
	fmt.Println(cached.Status.Phase, asked.Status.Message)
	fmt.Println(len(must(client.ListUncached(ctx, tarn.InNamespaces("shop")))), "pod")
	fmt.Println(client.Delete(ctx, key("shop", "web"), tarn.OnlyUID(web.UID), tarn.GracePeriod(0), tarn.Propagate(wire.Orphan)))
	// Output:
	// Running fine
	// 1 pod
	// <nil>
}

// Options of a connection, and its status.
func ExampleConnect() {
	var requests atomic.Int32
	count := func(ctx context.Context, _ wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
		requests.Add(1)
		return ctx, nil
	}
	_, options, end := demo()
	defer end()
	cluster := must(tarn.Connect(options, tarn.WithNamespace("shop"), tarn.WithUserAgent("shop/1.0"),
		tarn.WithRateLimit(50, 100), tarn.WithTuning(tarn.Tuning{Lists: 2}), tarn.WithObservers(nil, count)))
	deploy := must(cluster.Discovery().Find(context.Background(), "deploy"))
	fmt.Println(deploy.Resource, requests.Load() > 0)
	fmt.Println(cluster.Namespace(), strings.HasSuffix(cluster.Config().Host, cluster.Client().Host()))
	cluster.Registry().MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shop_open"})) // for /metrics

	_, err := tarn.Connect(tarn.InCluster(), tarn.WithKubeconfig("dev.kubeconfig"))
	fmt.Println(err)
	// Output:
	// deployments.apps true
	// shop true
	// tarn: connect: InCluster excludes WithKubeconfig and WithContext; use only one
}

// Handlers and batches, for programs that are not controllers.
func ExampleMirror_Subscribe() {
	_, options, end := demo(pod("shop", "db", "node-3"), pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster, tarn.KeepManagedFields(), tarn.Drop(object.LastApplied)))
	added, batches := make(chan string, 10), make(chan int, 10)
	must(pods.Subscribe(tarn.Handler[*corev1.Pod]{
		OnAdd: func(p *corev1.Pod, isInitial bool) { added <- fmt.Sprint(p.Name, " ", isInitial) },
	}, tarn.SubOptions[*corev1.Pod]{Name: "printer", Filter: func(p *corev1.Pod) bool { return p.Name == "web" }}))
	must(pods.SubscribeBatch(func(_ context.Context, events []tarn.Event[*corev1.Pod]) { batches <- len(events) }, tarn.SubOptions[*corev1.Pod]{}))
	_, stop := run(cluster)
	defer stop()
	<-pods.Synced()
	fmt.Println(<-added)
	for n := 0; n < 2; {
		n += <-batches
	}
	fmt.Println(pods.Len(), "pods,", pods.Status().Form == tarn.Typed)
	// Output:
	// web true
	// 2 pods, true
}

// A program that writes by other means than a Client reports its writes, and reads with Writes.
func ExampleMirror_Writes() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	ctx, stop := run(cluster)
	defer stop()
	written := must(pods.API().Patch(ctx, key("shop", "web"), wire.MergePatchOf(map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "front"}}}), wire.WriteOptions{}))
	fmt.Println(pods.Writes().Wrote(written))
	web, _, err := pods.Writes().Get(ctx, key("shop", "web")) // waits until the cache has it
	fmt.Println(web.Labels["tier"], err)
	// Output:
	// <nil>
	// front <nil>
}

// The roles as objects, to create or compare them.
func ExampleRules() {
	cluster := must(tarn.Connect(tarn.WithConfig(demoConfig), tarn.WithFieldManager("shopkeeper")))
	must(tarn.MirrorOf[*corev1.Node](cluster))
	must(tarn.MirrorOf[*corev1.Pod](cluster, tarn.InNamespaces("shop")))
	rules := cluster.RBAC()
	fmt.Println(rules.ClusterRole().Name, rules.ClusterRole().Rules[0].Resources)
	for _, role := range rules.Roles() {
		fmt.Println(role.Namespace, role.Rules[0].Verbs)
	}
	// Output:
	// shopkeeper [nodes]
	// shop [get list watch]
}

// A cluster runs once. Errors say what state it is in, and why a mirror is not synced.
func ExampleCluster_Run() {
	_, options, end := demo()
	defer end()
	cluster := must(tarn.Connect(options))
	gears := must(tarn.MirrorResource(cluster, wire.Unstructured(widgets)))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(errors.Is(cluster.WaitSynced(ended), tarn.ErrNotStarted))

	ctx, stop := run(cluster)
	var missing *tarn.NotServedError
	<-until(ctx, func() bool { return errors.As(gears.Status().Cause, &missing) }).Done()
	fmt.Println(missing.Resource, "is not served")
	fmt.Println(errors.Is(cluster.Run(ctx), tarn.ErrStarted))
	stop()
	_, err := tarn.MirrorOf[*corev1.Pod](cluster)
	fmt.Println(errors.Is(err, tarn.ErrStopped))
	// Output:
	// true
	// widgets.example.com is not served
	// true
	// true
}

// mirrorAll is generic code over mirrors: T is any object, and P the pointer to its type.
func mirrorAll[P tarn.Pointer[X], X any](m *tarn.Member) (count func() int, err error) {
	objects, err := tarn.MirrorOf[P](m.Cluster)
	if err != nil {
		return nil, err
	}
	return objects.Len, m.Reconcile(forEach(objects), tarn.For(objects))
}

func forEach[T tarn.Object](objects *tarn.Mirror[T]) tarn.ReconcileFunc {
	return func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		obj, ok := objects.Get(key)
		if ok {
			fmt.Println(obj.GetName())
		}
		return tarn.Result{}, nil
	}
}

// A fleet has the health checks and metrics of all its clusters.
func ExampleFleet_Handler() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	fleet := tarn.NewFleet()
	var print *tarn.FleetController = must(tarn.NewFleetController(fleet, "print", func(m *tarn.Member) error {
		_, err := mirrorAll[*corev1.Pod](m)
		return err
	}))
	if err := fleet.Add("eu", must(tarn.Connect(options))); err != nil {
		fmt.Println(err)
	}
	eu, _ := fleet.Cluster("eu")
	var also *tarn.Controller = must(tarn.NewController(eu, "also", idle, tarn.For(must(tarn.MirrorOf[*corev1.Node](eu)))))
	fmt.Println(print.Name(), also.Name())
	fleet.Registry().MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shop_open"}))
	answer := httptest.NewRecorder()
	fleet.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
	fmt.Println(answer.Code, answer.Body)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(fleet.Serve(ended, "127.0.0.1:0")) // until the context is done
	// Output:
	// print also
	// 200 ok
	// <nil>
}
