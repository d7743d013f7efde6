package tarn_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// demo serves objects for the examples until end is called. A real program does not need it:
// tarn.Connect() connects to the cluster that kubectl uses.
func demo(objs ...runtime.Object) (srv *apiserver.Server, config tarn.ConnectOption, end func()) {
	srv = must(apiserver.New(apiserver.Options{AnyNamespace: true, Seed: 1}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Run(ctx) }()
	for _, obj := range objs {
		must(srv.Create(obj))
	}
	return srv, tarn.WithConfig(srv.Config()), func() {
		cancel()
		if err := <-done; err != nil {
			log.Print(err)
		}
	}
}

// run runs a cluster in the background; end stops it and waits for it.
func run(c *tarn.Cluster) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return ctx, func() {
		cancel()
		if err := <-done; err != nil {
			log.Print(err)
		}
	}
}

// until returns a context that ends soon after a condition is met.
func until(ctx context.Context, met func() bool) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for !met() && ctx.Err() == nil {
			<-tick.C
		}
	}()
	return ctx
}

// Connect, declare mirrors, run, wait for sync, read.
func Example() {
	_, options, end := demo(pod("shop", "web", "node-7"), pod("shop", "db", "node-3"))
	defer end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	cluster, err := tarn.Connect(options) // with(): the cluster that kubectl would talk to
	if err != nil {
		log.Fatal(err)
	}
	byNode := tarn.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	pods, err := tarn.MirrorOf[*corev1.Pod](cluster)
	if err != nil {
		log.Fatal(err)
	}
	pods.AddIndex(byNode)
	ended := make(chan error)
	go func() { ended <- cluster.Run(ctx) }()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err) // names the cause, such as "pods is forbidden: …"
	}
	for p := range byNode.Get(pods.Snapshot(), "node-7") {
		fmt.Println(p.Name)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web
	// <nil>
}

// A resource without a Go type is found by any name that the server knows.
func ExampleMirrorByName() {
	srv, options, end := demo()
	defer end()
	if err := srv.Define(apiserver.Definition{Resource: widgets, ShortNames: []string{"wd"}}); err != nil {
		log.Fatal(err)
	}
	must(srv.Create(widget("gear")))
	cluster := must(tarn.Connect(options))
	ctx, stop := run(cluster)
	defer stop()

	gears, err := tarn.MirrorByName(ctx, cluster, "wd")
	if err != nil {
		log.Fatal(err)
	}
	defer gears.Close()
	if err := gears.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	gear, _ := gears.Get(object.Key{Namespace: "shop", Name: "gear"})
	fmt.Println(gear.GetKind(), gear.Object["spec"])

	_, err = tarn.MirrorByName(ctx, cluster, "wdigets")
	var unknown *wire.UnknownResourceError
	fmt.Println(errors.As(err, &unknown), unknown)
	// Output:
	// Widget map[size:3]
	// true no resource "wdigets"; did you mean widgets?
}

// Metadata is enough to see which objects exist and their owners.
func ExampleMirrorMetadata() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	ctx, stop := run(cluster)
	defer stop()

	pods, err := tarn.MirrorMetadata(ctx, cluster, "pods", tarn.Matching("app=web"))
	if err != nil {
		log.Fatal(err)
	}
	for event := range pods.Events(ctx) {
		fmt.Println(event.Kind, event.Key, event.New().Labels)
		pods.Close() // ends the loop, and the mirror
	}
	// Output: Added shop/web map[app:web]
}

// A wire.Resource describes a custom resource, with or without a Go type. The server may start to
// serve it later.
func ExampleMirrorResource() {
	srv, options, end := demo()
	defer end()
	cluster := must(tarn.Connect(options))
	ctx, stop := run(cluster)
	defer stop()

	gears, err := tarn.MirrorResource(cluster, wire.Unstructured(widgets), tarn.InNamespaces("shop"))
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Define(apiserver.Definition{Resource: widgets}); err != nil { // kubectl apply -f widgets.yaml
		log.Fatal(err)
	}
	must(srv.Create(widget("gear")))
	if err := gears.WaitFor(ctx, object.Version(fmt.Sprint(srv.Version()))); err != nil {
		log.Fatal(err)
	}
	fmt.Println(gears.Name(), gears.Len())
	// Output: widgets.example.com in shop (unstructured) 1
}

// The error names each mirror that is not synced, and why. Other mirrors are not affected.
func ExampleCluster_WaitSynced() {
	srv, options, end := demo()
	defer end()
	must(srv.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"}))
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	secrets := must(tarn.MirrorOf[*corev1.Secret](cluster))
	ctx, stop := run(cluster)
	defer stop()

	// A program would use context.WithTimeout(ctx, time.Minute).
	ctx = until(ctx, func() bool { return pods.Status().State == tarn.Live && secrets.Status().Cause != nil })
	err := cluster.WaitSynced(ctx)
	var missing *tarn.NotSyncedError
	if errors.As(err, &missing) {
		for _, m := range missing.Mirrors {
			fmt.Println(m.Informer, apierrors.IsForbidden(m))
		}
	}
	// Output: secrets true
}

// The required permissions follow from the declared mirrors, without a request to the server.
func ExampleCluster_RBAC() {
	cluster := must(tarn.Connect(tarn.WithConfig(demoConfig)))
	must(tarn.MirrorOf[*corev1.Node](cluster))
	must(tarn.MirrorOf[*corev1.Secret](cluster, tarn.InNamespaces("shop"), tarn.MatchingFields("metadata.name=token")))
	fmt.Print(cluster.RBAC())
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   name: tarn
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - nodes
	//   verbs:
	//   - get
	//   - list
	//   - watch
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: tarn
	//   namespace: shop
	// rules:
	// - apiGroups:
	//   - ""
	//   resourceNames:
	//   - token
	//   resources:
	//   - secrets
	//   verbs:
	//   - get
	//   - list
	//   - watch
}

// Status shows the state of every mirror.
func ExampleCluster_Status() {
	_, options, end := demo(pod("shop", "web", "node-7"), pod("shop", "db", "node-3"))
	defer end()
	cluster := must(tarn.Connect(options))
	must(tarn.MirrorOf[*corev1.Pod](cluster, tarn.Compact()))
	fmt.Println(cluster.Status())
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	for _, m := range cluster.Status().Mirrors {
		fmt.Println(m.Name, m.Resource.Kind, m.Form, m.Compact, m.Objects)
	}
	// Output:
	// pods (compact): declared, 0 objects
	// pods (compact) Pod typed true 2
}

// A status is plain data, for reports of the program's own.
func ExampleStatus() {
	_, options, end := demo(pod("shop", "web", "node-7"), pod("shop", "db", "node-3"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	must(tarn.MirrorResource(cluster, wire.Metadata(pods.Resource()), tarn.Matching("app=web")))
	report := func(s tarn.Status) {
		states, objects := map[tarn.State]int{}, map[tarn.Form]int{}
		for _, m := range s.Mirrors {
			states[m.State]++
			objects[m.Form] += m.Objects
		}
		fmt.Println(states, objects)
	}
	report(cluster.Status())
	ctx, stop := run(cluster)
	defer stop()
	<-until(ctx, func() bool { return cluster.Status().Live() }).Done()
	report(cluster.Status())
	largest := slices.MaxFunc(cluster.Status().Mirrors, func(a, b tarn.MirrorStatus) int { return cmp.Compare(a.Objects, b.Objects) })
	fmt.Println(largest)
	// Output:
	// map[declared:2] map[metadata:0 typed:0]
	// map[live:2] map[metadata:1 typed:2]
	// pods: live, 2 objects
}

// A transform owns its object and may write to all of it.
func ExampleNewTransform() {
	slim := tarn.NewTransform("slim", func(p *corev1.Pod) (*corev1.Pod, error) {
		delete(p.Annotations, "example.com/notes")
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Env = nil
			p.Spec.Containers[i].Image = "mirror.example.com/" + p.Spec.Containers[i].Image
		}
		return p, nil
	})
	replica := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{"example.com/notes": "long"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}},
		}
	}
	_, opts, end := demo(replica("web-1"), replica("web-2"), replica("web-3"))
	defer end()
	cluster := must(tarn.Connect(opts))
	pods := must(tarn.MirrorTransformed(cluster, wire.MustOf[*corev1.Pod](), slim.Versioned("1"))) // for WithJournal
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	for p := range pods.Snapshot().All() {
		fmt.Println(p.Name, p.Annotations, p.Spec.Containers[0].Image, p.Spec.Containers[0].Env)
	}
	// Output:
	// web-1 map[] mirror.example.com/nginx []
	// web-2 map[] mirror.example.com/nginx []
	// web-3 map[] mirror.example.com/nginx []
}

// Two callers that need different contents of one mirror get an error that names both call sites.
func ExampleConflictError() {
	noEnv := tarn.NewTransform("no env", func(p *corev1.Pod) (*corev1.Pod, error) {
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Env = nil
		}
		return p, nil
	})
	cluster := must(tarn.Connect(tarn.WithConfig(demoConfig)))
	must(tarn.MirrorTransformed(cluster, wire.MustOf[*corev1.Pod](), noEnv))
	_, err := tarn.MirrorOf[*corev1.Pod](cluster) // without it
	var conflict *tarn.ConflictError
	if errors.As(err, &conflict) {
		fmt.Printf("%s: the mirror has %s, this call wants %s\n", conflict.What, conflict.Has, conflict.Wants)
	}
	// Output: transform: the mirror has "no env", this call wants none
}
