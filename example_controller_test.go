package tarn_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/wire"
)

// A controller that gives every namespace a config map. The cluster runs it.
func ExampleNewController() {
	_, options, end := demo(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	defer end()
	cluster := must(tarn.Connect(options))
	namespaces := must(tarn.MirrorOf[*corev1.Namespace](cluster))
	configMaps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster, tarn.InNamespaces("shop")))
	owners, children := namespaces.Client(), configMaps.Client()

	created := make(chan string, 10)
	reconcile := func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
		ns, err := owners.Get(ctx, key)
		if err != nil || ns.Name != "shop" {
			return tarn.Result{}, tarn.IgnoreNotFound(err)
		}
		welcome := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "welcome"}}
		welcome, outcome, err := children.CreateOrUpdate(ctx, welcome, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"text": "Welcome to " + ns.Name}
			return owners.SetOwner(m, ns)
		})
		if outcome == tarn.OutcomeCreated {
			created <- welcome.Data["text"]
		}
		return tarn.Result{}, err
	}
	must(tarn.NewController(cluster, "welcome", reconcile, tarn.For(namespaces), tarn.Owns(configMaps), tarn.Workers(2)))
	_, stop := run(cluster)
	fmt.Println(<-created)
	stop()
	// Output: Welcome to shop
}

// Watches reconciles other keys than those of the changed objects. From adds any source of keys,
// and WithControllerOptions sets what is rarely needed.
func ExampleWatches() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	nodes := make(chan string, 10)
	reconcile := func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		nodes <- key.Name
		return tarn.Result{}, nil
	}
	must(tarn.NewController(cluster, "nodes", reconcile,
		tarn.WithControllerOptions(controller.Options[tarn.Key]{Timeout: time.Minute, Attempts: 10}),
		tarn.Watches(pods, func(p *corev1.Pod) []tarn.Key { return []tarn.Key{{Name: p.Spec.NodeName}} }),
		tarn.From(controller.Every(time.Hour, func(add func(tarn.Key)) { add(tarn.Key{Name: "all"}) }))))
	_, stop := run(cluster)
	fmt.Println(<-nodes)
	stop()
	// Output: node-7
}

// A client reads copies from the cache, never older than its own writes, and writes to the server.
func ExampleMirror_Client() {
	_, options, end := demo()
	defer end()
	cluster := must(tarn.Connect(options, tarn.WithFieldManager("example")))
	client := must(tarn.MirrorOf[*corev1.ConfigMap](cluster)).Client()
	ctx, stop := run(cluster)
	defer stop()

	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	key := tarn.Key{Namespace: "shop", Name: "settings"}
	must(client.Create(ctx, settings))

	old := must(client.Get(ctx, key)) // has the write
	changed := old.DeepCopy()
	changed.Data["colour"] = "red"
	must(client.PatchFrom(ctx, old, changed))
	must(client.Patch(ctx, key, wire.MergePatchOf(map[string]any{"data": map[string]any{"size": "small"}})))
	must(client.Apply(ctx, map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "settings"}, "data": map[string]any{"shape": "round"},
	}, tarn.Force()))
	for _, m := range must(client.List(ctx, tarn.InNamespaces("shop"))) {
		fmt.Println(m.Name, m.Data)
	}
	if err := client.Delete(ctx, key, tarn.OnlyUID(old.UID)); err != nil {
		log.Fatal(err)
	}
	_, err := client.Get(ctx, key)
	fmt.Println(err)
	// Output:
	// settings map[colour:red shape:round size:small]
	// configmaps "settings" not found
}

// Metrics, health and profiles of the cluster for an HTTP server of the program's own.
// Cluster.Serve has one built in.
func ExampleCluster_Handler() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	must(tarn.MirrorOf[*corev1.Pod](cluster))
	server := httptest.NewServer(cluster.Handler())
	defer server.Close()
	fmt.Print(get(server.URL + "/readyz"))
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(get(server.URL + "/metrics")) {
		if strings.HasPrefix(line, "tarn_informer_objects") {
			fmt.Print(line)
		}
	}
	// Output:
	// [+]ping ok
	// [-]informer/pods failed: not synced: not started
	// readyz check failed
	// tarn_informer_objects{informer="pods"} 1
}

func get(url string) string {
	resp := must(http.Get(url))
	defer resp.Body.Close()
	return string(must(io.ReadAll(resp.Body)))
}

// View reads a snapshot that cannot outlive the call.
func ExampleMirror_View() {
	_, options, end := demo(pod("shop", "web", "node-7"), pod("shop", "db", "node-3"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	pods.View(func(s tarn.Snapshot[*corev1.Pod]) { fmt.Println(s.Len()) })
	// Output: 2
}
