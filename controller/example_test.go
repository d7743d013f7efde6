package controller_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

// reconciled runs parts and a controller of a source until n keys were reconciled, and prints
// them.
func reconciled[K comparable](n int, src controller.Source[K], parts ...controller.Runner) {
	reconciledAll(n, []controller.Source[K]{src}, parts...)
}

func reconciledAll[K comparable](n int, sources []controller.Source[K], parts ...controller.Runner) {
	keys, enough := make(chan K), make(chan struct{})
	c, err := controller.New("example", func(_ context.Context, key K) (controller.Result, error) {
		select {
		case keys <- key:
		case <-enough: // a key may be reconciled again before the controller stops
		}
		return controller.Result{}, nil
	}, controller.Options[K]{}, sources...)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- controller.Run(ctx, append(parts, c)...) }()
	for range n {
		fmt.Println(<-keys)
	}
	close(enough)
	stop()
	<-done
}

func ExampleFor() {
	pods := newInformer("pods", simtest.Pods("shop/db", "shop/web"))
	reconciled(2, controller.For(pods), pods)
	// Output:
	// shop/db
	// shop/web
}

// Predicates skip changes that need no reconcile.
func ExamplePredicate() {
	srv := simtest.Pods("shop/db")
	srv.Set("shop/web", label[*corev1.Pod]("app", "web"))
	pods := newInformer("pods", srv)
	deletions := func(e informer.Event[*corev1.Pod]) bool { return e.Kind == object.Deleted }
	labelled := controller.Where(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	reconciled(1, controller.For(pods, controller.AnyOf(deletions, labelled), controller.SpecChanged[*corev1.Pod]()), pods)
	// Output: shop/web
}

// Keys need not be object keys: here they are node names.
func ExampleWatches() {
	srv := simtest.Pods()
	for i, node := range []string{"node-1", "node-2", "node-1"} {
		srv.Set(fmt.Sprint("shop/p", i), func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	pods := newInformer("pods", srv)
	reconciled(2, controller.Watches(pods, func(p *corev1.Pod, add func(string)) { add(p.Spec.NodeName) }), pods)
	// Output:
	// node-1
	// node-2
}

func ExampleChannel() {
	keys := make(chan int, 2)
	keys <- 1
	keys <- 2
	reconciled(2, controller.Channel("numbers", keys))
	// Output:
	// 1
	// 2
}

func ExampleEvery() {
	reconciled(3, controller.Every(time.Millisecond, func(add func(string)) { add("disk usage") }))
	// Output:
	// disk usage
	// disk usage
	// disk usage
}

// A custom source is a function.
func ExampleSource() {
	reconciled(1, controller.Source[string]{Name: "boot", Run: func(ctx context.Context, in *controller.Intake[string]) error {
		in.AddInitial("everything")
		<-ctx.Done()
		return nil
	}})
	// Output: everything
}

// A source chooses the priority of its keys, and reports what it cannot use.
func ExampleIntake() {
	tasks := strings.NewReader("background shop/old\nnormal shop/db\nnormal shop/\nurgent shop/web\n")
	read := make(chan struct{})
	reconciled(3, controller.Source[object.Key]{
		Name:  "tasks",
		Ready: func(context.Context) error { <-read; return nil }, // workers start after that
		Run: func(ctx context.Context, in *controller.Intake[object.Key]) error {
			for lines := bufio.NewScanner(tasks); lines.Scan(); {
				how, name, _ := strings.Cut(lines.Text(), " ")
				key, err := object.Parse(name)
				switch {
				case err != nil:
					in.Failed(fmt.Errorf("a task for controller %s: %w", in.Controller(), err)) // logged and counted
				case how == "urgent":
					in.AddWith(workqueue.Request{Priority: 10}, key)
				case how == "background":
					in.AddWith(workqueue.Request{Priority: controller.Initial}, key)
				default:
					in.Add(key)
				}
			}
			close(read)
			<-ctx.Done()
			return nil
		},
	})
	// Output:
	// shop/web
	// shop/db
	// shop/old
}

// A source of its own reports deletions, so that a controller with Options.Claims knows them.
func ExampleIntake_AddDeleted() {
	reconciled(1, controller.Source[string]{Name: "folder", Run: func(ctx context.Context, in *controller.Intake[string]) error {
		in.AddDeleted("report.txt")
		<-ctx.Done()
		return nil
	}})
	// Output: report.txt
}

// The result of a reconcile decides when the key is reconciled again.
func ExampleResult() {
	n := 0
	done := make(chan struct{})
	keys := make(chan string, 1)
	c, _ := controller.New("example", func(ctx context.Context, key string) (controller.Result, error) {
		n++
		fmt.Println("attempt", controller.Attempt(ctx))
		switch n {
		case 1:
			return controller.Result{}, errors.New("no luck") // again, with back-off
		case 2:
			return controller.Result{RequeueAfter: time.Millisecond}, nil // again, after that
		case 3:
			return controller.Result{Requeue: true}, nil // again, with back-off
		}
		close(done)
		return controller.Result{}, controller.Terminal(errors.New("hopeless")) // not again
	}, controller.Options[string]{}, controller.Channel("keys", keys))
	ctx, stop := context.WithCancel(context.Background())
	keys <- "k"
	go func() { <-done; stop() }()
	fmt.Println(controller.Run(ctx, c))
	fmt.Println(c.Status())
	// Output:
	// attempt 1
	// attempt 2
	// attempt 1
	// attempt 1
	// <nil>
	// example: idle, 0 waiting, 0 running, 0 delayed; 4 reconciled, 2 failed
	//   k: attempt 1: not to be retried: hopeless
}

// The error lists the keys that were left when the controller stopped.
func ExampleUnfinishedError() {
	keys := make(chan string)
	begun := make(chan struct{})
	c, _ := controller.New("example", func(ctx context.Context, key string) (controller.Result, error) {
		close(begun)
		<-ctx.Done()
		fmt.Println("after the grace period:", context.Cause(ctx) == controller.ErrStopping)
		return controller.Result{}, ctx.Err()
	}, controller.Options[string]{Grace: time.Millisecond}, controller.Channel("keys", keys))
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		keys <- "k"
		<-begun
		stop()
	}()
	err := controller.Run(ctx, c)
	fmt.Println(err)
	var left *controller.UnfinishedError[string]
	fmt.Println(errors.As(err, &left), left.Waiting)
	// Output:
	// after the grace period: true
	// controller example: ended with 1 still waiting (k)
	// true [k]
}

// Reads never return a state that is older than this process's own writes.
func ExampleTracked() {
	srv := simtest.Pods("shop/web")
	pods := newInformer("pods", srv)
	client := newClient(srv, pods)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- pods.Run(ctx) }()
	_ = pods.WaitSynced(ctx)

	srv.Hold(true) // the cache becomes stale
	_, err := client.Patch(ctx, web, label[*corev1.Pod]("a", "b"), none{})
	fmt.Println(err)
	_, _, err = client.Get(web) // a reconcile returns such an error, and is called again soon
	fmt.Println(errors.Is(err, controller.ErrStaleCache), err)
	srv.Hold(false)
	_ = pods.Writes().Wait(ctx, web)
	pod, ok, err := client.Get(web)
	fmt.Println(pod.Labels, ok, err)
	stop()
	<-done
	// Output:
	// <nil>
	// true pods shop/web: controller: the cache is older than this process's own write
	// map[a:b] true <nil>
}

func ExampleFinalize() {
	const volume = controller.Finalizer("example.com/volume")
	srv := simtest.Pods("shop/web")
	reconcile := func() {
		pod := srv.Get("shop/web")
		_, gone, err := controller.Finalize(context.Background(), replace(srv), pod, volume, func(context.Context, *corev1.Pod) error {
			fmt.Println("deleting the volume")
			return nil
		})
		there := srv.Get("shop/web") != nil
		fmt.Println(gone, err, there)
	}
	reconcile()
	deleteAsUser(srv, "shop/web")
	reconcile()
	// Output:
	// false <nil> true
	// deleting the volume
	// true <nil> false
}

// An object that is created with its finalizer is never deleted without a cleanup.
func ExampleFinalizer() {
	const volume = controller.Finalizer("example.com/volume")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if volume.Add(pod) {
		fmt.Println("create with", pod.Finalizers)
	}
	if volume.On(pod) && volume.Remove(pod) { // after the cleanup
		fmt.Println("update with", pod.Finalizers)
	}
	// Output:
	// create with [example.com/volume]
	// update with []
}

func ExampleSetOwner() {
	owner := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u-1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	fmt.Println(controller.SetOwner(pod, owner, namespaces))
	ref, ok := controller.OwnerOf(pod)
	fmt.Println(ref.Kind, ref.Name, ok)

	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank", UID: "u-2"}}
	err := controller.SetOwner(pod, other, namespaces)
	if owned := (*controller.OwnedError)(nil); errors.As(err, &owned) {
		fmt.Println(owned.Key, "keeps its owner", owned.Owner.Name)
	}
	// Output:
	// <nil>
	// Namespace shop true
	// shop/web keeps its owner shop
}

// Code that changes something other than API objects checks the fence right before.
func ExampleMayWrite() {
	fence := newGate()
	ctx := controller.WithFence(context.Background(), fence)
	fmt.Println(controller.MayWrite(ctx))
	fence.set(true)
	err := controller.MayWrite(ctx)
	fmt.Println(errors.Is(err, controller.ErrNotLeading), err)
	// Output:
	// <nil>
	// true controller: this process does not lead
}

// A write that another process must not find late needs a condition that the server checks.
func ExampleFenced() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u-1"}}
	ctx := controller.WithFence(context.Background(), newGate())
	opts := metav1.DeleteOptions{}
	if controller.Fenced(ctx) {
		opts.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	}
	fmt.Println(*opts.Preconditions.UID, controller.Fenced(context.Background()))
	// Output: u-1 false
}

// Logger adds controller, key and attempt to every line.
func ExampleLogger() {
	keys, done := make(chan string, 1), make(chan struct{})
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	c, _ := controller.New("example", func(ctx context.Context, key string) (controller.Result, error) {
		controller.Logger(ctx).Info("here")
		close(done)
		return controller.Result{}, nil
	}, controller.Options[string]{Logger: slog.New(handler)}, controller.Channel("keys", keys))
	ctx, stop := context.WithCancel(context.Background())
	keys <- "shop/web"
	go func() { <-done; stop() }()
	_ = controller.Run(ctx, c)
	// Output: level=INFO msg=here controller=example key=shop/web attempt=1
}

// Informers run outside WhileLeading and stay synced; the controller runs only while the process leads.
func ExampleWhileLeading() {
	leadership := newGate() // package leader has an implementation with Leases
	pods := newInformer("pods", simtest.Pods("shop/web"))
	done := make(chan object.Key)
	c, _ := controller.New("example", func(ctx context.Context, key object.Key) (controller.Result, error) {
		done <- key
		return controller.Result{}, nil
	}, controller.Options[object.Key]{}, controller.For(pods))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx, pods, controller.WhileLeading(leadership, c)) }()
	_ = pods.WaitSynced(ctx)
	fmt.Println("standing by with", pods.Len(), "pod:", c.Status().State)
	leadership.terms <- func() {} // this process is elected
	fmt.Println("reconciled", <-done)
	stop()
	fmt.Println(<-ended)
	// Output:
	// standing by with 1 pod: idle
	// reconciled shop/web
	// <nil>
}
