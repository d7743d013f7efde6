package workloads

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/store"
)

// Options configures the stand-ins. The zero value is usable.
type Options struct {
	// Nodes is the number of nodes to create, named node-1, node-2 and so on. Negative for
	// none. Defaults to 1.
	Nodes int
	// StartLatency is the time from the assignment of a pod to a node until it is Ready.
	// Negative for none. Defaults to one second.
	StartLatency time.Duration
	// StopLatency is the time that a deleted pod takes to terminate, if its grace period is
	// not shorter. Negative for none. Defaults to one second.
	StopLatency time.Duration
	// RunTime is the time that the containers of a pod with the restart policy Never or
	// OnFailure run. Negative for none. Defaults to one second.
	RunTime time.Duration
	// Logger logs failed reconciles. Defaults to discarding.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Nodes = max(cmp.Or(o.Nodes, 1), 0)
	for _, d := range []*time.Duration{&o.StartLatency, &o.StopLatency, &o.RunTime} {
		*d = max(cmp.Or(*d, time.Second), 0)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Workloads runs the stand-ins on one API server. All methods may be called from any
// goroutine at any time.
type Workloads struct {
	opts     Options
	cluster  *tarn.Cluster
	failures failures

	nodes        objects[*corev1.Node]
	pods         objects[*corev1.Pod]
	claims       objects[*corev1.PersistentVolumeClaim]
	services     objects[*corev1.Service]
	slices       objects[*discoveryv1.EndpointSlice]
	deployments  objects[*appsv1.Deployment]
	replicaSets  objects[*appsv1.ReplicaSet]
	statefulSets objects[*appsv1.StatefulSet]
	daemonSets   objects[*appsv1.DaemonSet]
	revisions    objects[*appsv1.ControllerRevision]
	jobs         objects[*batchv1.Job]
	cronJobs     objects[*batchv1.CronJob]
	budgets      objects[*policyv1.PodDisruptionBudget]
}

// New returns stand-ins for the API server of a config. Nothing happens until
// [Workloads.Run].
func New(cfg *rest.Config, opts Options) (*Workloads, error) {
	w := &Workloads{opts: opts.withDefaults(), failures: failures{changed: make(chan struct{})}}
	var err error
	w.cluster, err = tarn.Connect(tarn.WithConfig(cfg), tarn.WithUserAgent("tarn-workloads"), tarn.WithFieldManager("tarn-workloads"), tarn.WithLogger(w.opts.Logger))
	if err != nil {
		return nil, fmt.Errorf("workloads: %w", err)
	}
	w.nodes, w.pods, w.claims = mirror[*corev1.Node](w, &err), mirror[*corev1.Pod](w, &err), mirror[*corev1.PersistentVolumeClaim](w, &err)
	w.services, w.slices = mirror[*corev1.Service](w, &err), mirror[*discoveryv1.EndpointSlice](w, &err)
	w.deployments, w.replicaSets = mirror[*appsv1.Deployment](w, &err), mirror[*appsv1.ReplicaSet](w, &err)
	w.statefulSets, w.daemonSets, w.revisions = mirror[*appsv1.StatefulSet](w, &err), mirror[*appsv1.DaemonSet](w, &err), mirror[*appsv1.ControllerRevision](w, &err)
	w.jobs, w.cronJobs, w.budgets = mirror[*batchv1.Job](w, &err), mirror[*batchv1.CronJob](w, &err), mirror[*policyv1.PodDisruptionBudget](w, &err)
	if err != nil {
		return nil, fmt.Errorf("workloads: %w", err)
	}
	w.pods.AddIndex(podsByNode, podsByIP)
	for _, add := range []func() error{
		w.addNodes, w.addEvictions, w.addScheduler, w.addKubelet, w.addClaims, w.addEndpoints,
		w.addDeployments, w.addReplicaSets, w.addStatefulSets, w.addDaemonSets, w.addJobs, w.addCronJobs, w.addBudgets,
	} {
		if err := add(); err != nil {
			return nil, fmt.Errorf("workloads: %w", err)
		}
	}
	return w, nil
}

// Run runs the stand-ins until ctx ends. It must be called once.
func (w *Workloads) Run(ctx context.Context) error {
	if err := w.cluster.Run(ctx); err != nil {
		return fmt.Errorf("workloads: %w", err)
	}
	return nil
}

// Start runs stand-ins on a server until the test ends. They connect in memory. In a
// testing/synctest bubble, pass the bubble's own T.
func Start(t apiserver.TB, server *apiserver.Server, opts Options) *Workloads {
	t.Helper()
	w, err := New(server.MemoryConfig(), opts)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("%v", err)
		}
	})
	return w
}

// objects reads objects from a mirror and writes through a client. What it reads is shared:
// a reconcile copies an object before it changes it. A reconcile of a key starts when the
// mirror has the writes of the previous one.
type objects[T tarn.Object] struct {
	*tarn.Mirror[T]
	client *tarn.Client[T]
	owners *store.Index[T, types.UID] // by controller
}

func mirror[P tarn.Pointer[X], X any](w *Workloads, err *error) (r objects[P]) {
	if *err != nil {
		return r
	}
	r.Mirror, *err = tarn.MirrorOf[P](w.cluster)
	if *err != nil {
		return r
	}
	r.client = r.Mirror.Client()
	r.owners = store.NewMultiIndex("controller", func(obj P, add func(types.UID)) error {
		if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
			add(ref.UID)
		}
		return nil
	})
	r.AddIndex(r.owners)
	return r
}

// of returns the objects whose controller is owner, oldest first.
func (r objects[T]) of(owner metav1.Object) []T { return indexed(r, r.owners, owner.GetUID()) }

// indexed returns the objects with an index value, oldest first.
func indexed[T tarn.Object, K comparable](r objects[T], x *store.Index[T, K], value K) (found []T) {
	r.View(func(snap tarn.Snapshot[T]) { found = slices.Collect(x.Get(snap, value)) })
	slices.SortFunc(found, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// in returns the objects of a namespace, or all if it is empty.
func (r objects[T]) in(namespace string) (found []T) {
	r.View(func(snap tarn.Snapshot[T]) {
		if namespace == "" {
			found = slices.Collect(snap.All())
		} else {
			found = slices.Collect(snap.Namespace(namespace))
		}
	})
	return found
}

// live returns the object with a key, unless it is being deleted.
func (r objects[T]) live(key tarn.Key) (obj T, ok bool) {
	obj, ok = r.Get(key)
	return obj, ok && obj.GetDeletionTimestamp() == nil
}

// setStatus writes a changed status. It ignores that the object was deleted.
func (r objects[T]) setStatus(ctx context.Context, old, changed T) error {
	if equality.Semantic.DeepEqual(old, changed) {
		return nil
	}
	_, err := r.client.UpdateStatus(ctx, changed)
	return tarn.IgnoreNotFound(err)
}

// remove deletes an object. It ignores that it was deleted before.
func (r objects[T]) remove(ctx context.Context, obj T, opts ...tarn.WriteOption) error {
	if obj.GetDeletionTimestamp() != nil && len(opts) == 0 {
		return nil
	}
	return tarn.IgnoreNotFound(r.client.Delete(ctx, keyOf(obj), append(opts, tarn.OnlyUID(obj.GetUID()))...))
}

// add adds a controller to the cluster. Controllers have one worker, so what only the
// reconcile function uses needs no lock.
func (w *Workloads) add(name string, reconcile tarn.ReconcileFunc, opts ...tarn.ControllerOption) error {
	// The server may refuse connections for any time.
	opts = append(opts, tarn.WithControllerOptions(controller.Options[tarn.Key]{SyncTimeout: -1}))
	_, err := tarn.NewController(w.cluster, name, reconcile, opts...)
	return err
}

// onFailures reconciles all objects of a mirror when a failure is injected or removed.
func onFailures[T tarn.Object](w *Workloads, r objects[T]) tarn.ControllerOption {
	return tarn.From(controller.Source[tarn.Key]{Name: "failures", Run: func(ctx context.Context, in *controller.Intake[tarn.Key]) error {
		for {
			changed := w.failures.wait()
			for _, obj := range r.in("") {
				in.Add(keyOf(obj))
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil
			}
		}
	}})
}

// keyOf returns the key of an object.
func keyOf(obj metav1.Object) tarn.Key {
	return tarn.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// sooner returns the shorter of two delays, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// value returns what p points to, or a default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// natural is value for a number that is not negative. With apiserver.Options.Strict the server
// rejects negative ones; without, they count as 0.
func natural(p *int32, otherwise int32) int32 { return max(value(p, otherwise), 0) }
