package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
)

// adminToken allows changes in the console.
const adminToken = "open-sesame"

// stuck is the deployment that the controller cannot reconcile.
const stuck = "shop/checkout-canary"

// lab is a cluster on an embedded API server, with the console on a listener of this machine.
type lab struct {
	*testing.T
	server *apiserver.Server
	// url is the address of the page.
	url       string
	cluster   *tarn.Cluster
	handler   http.Handler
	closeHTTP func()
	// watched are the pods of shop/web, which the test may write to.
	watched []*corev1.Pod
}

// newLab starts a cluster with two namespaces of deployments, replica sets and pods, and a
// controller that fails for stuck. Faults are injected before the mirrors start.
func newLab(t *testing.T, faults ...apiserver.Fault) *lab {
	t.Helper()
	l := &lab{T: t, server: apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", Bookmarks: time.Second})}
	for _, f := range faults {
		if _, err := l.server.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, apps := range map[string][]string{"shop": {"web", "cart", "checkout", "checkout-canary", "search"}, "blog": {"www", "comments", "images"}} {
		l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for _, app := range apps {
			l.createApp(namespace, app)
		}
	}
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls"}, StringData: map[string]string{"tls.key": "c2VjcmV0"}})
	l.cluster = l.connect()
	l.handler = l.cluster.Handler()
	l.serve("127.0.0.1:0")
	return l
}

func (l *lab) create(obj runtime.Object) runtime.Object {
	l.Helper()
	created, err := l.server.Create(obj)
	if err != nil {
		l.Fatal(err)
	}
	return created
}

func (l *lab) createApp(namespace, name string) {
	l.Helper()
	meta := func(name string, owner metav1.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}
		if owner != nil {
			yes := true
			m.Labels = owner.GetLabels()
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
		}
		return m
	}
	deployment := l.create(&appsv1.Deployment{ObjectMeta: meta(name, nil, "")}).(*appsv1.Deployment)
	set := l.create(&appsv1.ReplicaSet{ObjectMeta: meta(name+"-7f9c", deployment, "Deployment")}).(*appsv1.ReplicaSet)
	for i := range 6 {
		pod := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("%s-7f9c-%05x", name, 0x2a51d+i*0x1337), set, "ReplicaSet")}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i%3)
		pod.Spec.Containers = []corev1.Container{{Name: name, Image: "registry.example.com/" + namespace + "/" + name + ":1.41.3"}}
		pod.Status.Phase = corev1.PodRunning
		created := l.create(pod).(*corev1.Pod)
		if namespace == "shop" && name == "web" {
			l.watched = append(l.watched, created)
		}
	}
}

// connect declares the mirrors and the controller, and runs the cluster.
func (l *lab) connect() *tarn.Cluster {
	l.Helper()
	cluster, err := tarn.Connect(tarn.WithConfig(l.server.Config()), tarn.WithLogger(slog.New(slog.DiscardHandler)), tarn.WithConsole(console.HandlerOptions{AdminToken: adminToken}))
	must(l.T, err)
	pods, err := tarn.MirrorOf[*corev1.Pod](cluster, tarn.KeepHistory(5))
	must(l.T, err)
	pods.AddIndex(tarn.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }))
	deployments, err := tarn.MirrorOf[*appsv1.Deployment](cluster)
	must(l.T, err)
	sets, err := tarn.MirrorOf[*appsv1.ReplicaSet](cluster)
	must(l.T, err)
	_, err = tarn.MirrorOf[*corev1.ConfigMap](cluster)
	must(l.T, err)
	_, err = tarn.MirrorOf[*corev1.Secret](cluster)
	must(l.T, err)
	_, err = tarn.NewController(cluster, "rollout", reconciler(deployments), tarn.For(deployments), tarn.Owns(sets),
		tarn.Watches(pods, func(p *corev1.Pod) []tarn.Key { return []tarn.Key{{Namespace: p.Namespace, Name: p.Labels["app"]}} }),
		tarn.WithControllerOptions(controller.Options[tarn.Key]{Workers: 4}))
	must(l.T, err)
	l.run(cluster)
	return cluster
}

// run runs a cluster until the test ends.
func (l *lab) run(cluster *tarn.Cluster) {
	ctx, stop := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() {
		if err := cluster.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			l.Errorf("run: %v", err)
		}
	})
	l.Cleanup(func() { stop(); runs.Wait() })
}

// reconciler fails for stuck as long as it exists.
func reconciler(deployments *tarn.Mirror[*appsv1.Deployment]) tarn.ReconcileFunc {
	return func(_ context.Context, key tarn.Key) (controller.Result, error) {
		if _, ok := deployments.Get(key); ok && key.String() == stuck {
			return controller.Result{}, errors.New(`admission webhook "policy.example.com" denied the request: image tag latest is not allowed`)
		}
		return controller.Result{}, nil
	}
}

// serve listens on an address of this machine until the test ends or closeHTTP is called.
func (l *lab) serve(address string) {
	l.Helper()
	listener, err := net.Listen("tcp", address)
	must(l.T, err)
	server := &http.Server{Handler: console.OnLoopback(l.handler)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	l.closeHTTP = func() { _ = server.Close(); serving.Wait() }
	l.Cleanup(l.closeHTTP)
	l.url = "http://" + listener.Addr().String() + "/debug/tarn/"
}

// churn changes the pods of shop/web until the test ends, so many times a second in all.
func (l *lab) churn(perSecond int) {
	ctx, stop := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() {
		paced(ctx, perSecond, func(i int) {
			l.update(l.watched[i%len(l.watched)], func(p *corev1.Pod) {
				p.Annotations = map[string]string{"example.com/heartbeat": fmt.Sprint(i)}
			})
		})
	})
	l.Cleanup(func() { stop(); runs.Wait() })
}

// paced calls f so many times a second until ctx ends, and catches up after a delay.
func paced(ctx context.Context, perSecond int, f func(i int)) {
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; i < int(time.Since(begun).Seconds()*float64(perSecond)) && ctx.Err() == nil; i++ {
			f(i)
		}
	}
}

// update changes a pod, whatever version of it the server has.
func (l *lab) update(pod *corev1.Pod, edit func(*corev1.Pod)) {
	changed := pod.DeepCopy()
	changed.ResourceVersion, changed.UID = "", types.UID("")
	edit(changed)
	if _, err := l.server.Update(changed); err != nil {
		l.Errorf("update: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
