package adapters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/e2e/sample"
)

// reconciler does what the sample's controller does, in the way of a controller-runtime
// program. It has no line that is Tarn's. Which Deployments a Foo owns it asks the field
// index.
type reconciler struct {
	client.Client
	live client.Reader
}

const ownerField = ".metadata.controller"

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var owned appsv1.DeploymentList
	if err := r.List(ctx, &owned, client.InNamespace(req.Namespace), client.MatchingFields{ownerField: req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var foo sample.Foo
	err := r.Get(ctx, req.NamespacedName, &foo)
	if apierrors.IsNotFound(err) && len(owned.Items) > 0 {
		err = r.live.Get(ctx, req.NamespacedName, &foo) // the cache may be behind
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil {
		foo.UID = "" // it owns nothing
	}
	var current *appsv1.Deployment
	for i := range owned.Items {
		d := &owned.Items[i]
		if metav1.IsControlledBy(d, &foo) {
			current = d
		} else if err := r.Delete(ctx, d, client.Preconditions{UID: &d.UID}); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	switch {
	case err != nil: // deleted
		return ctrl.Result{}, nil
	case current == nil: // or not in the cache yet
		return ctrl.Result{}, client.IgnoreAlreadyExists(r.Create(ctx, sample.DeploymentOf(&foo)))
	}
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != *current.Spec.Replicas {
		before := current.DeepCopy()
		current.Spec.Replicas = foo.Spec.Replicas
		if err := r.Patch(ctx, current, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if foo.Status.AvailableReplicas == current.Status.AvailableReplicas {
		return ctrl.Result{}, nil
	}
	foo.Status.AvailableReplicas = current.Status.AvailableReplicas
	return ctrl.Result{}, r.Status().Update(ctx, &foo)
}

// managerProgram is the program's main function. newInformer is what a user sets.
type managerProgram struct {
	newInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
	namespace   string
	manager     ctrl.Manager
	used        *used // nil where nothing is Tarn's
}

// used is what controller-runtime has asked the adapters for.
type used struct {
	mu        sync.Mutex // guards what follows
	informers map[string]toolscache.SharedIndexInformer
}

func newPlainManager(t *testing.T, s server, namespace string) program {
	return (&managerProgram{namespace: namespace}).setUp(t, s)
}

func newTarnManager(t *testing.T, s server, namespace string) program {
	u := &used{informers: map[string]toolscache.SharedIndexInformer{}}
	return (&managerProgram{namespace: namespace, used: u, newInformer: u.newInformer}).setUp(t, s)
}

func (u *used) newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	informer := clientgo.NewSharedIndexInformer(lw, example, resync, indexers)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.informers[fmt.Sprintf("%T", example)] = informer
	return informer
}

func (p *managerProgram) setUp(t *testing.T, s server) program {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sample.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	again := true // there are several in a process
	p.manager = must[ctrl.Manager](t)(ctrl.NewManager(s.config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: &again},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{p.namespace: {}}, NewInformer: p.newInformer},
	}))
	err := p.manager.GetFieldIndexer().IndexField(t.Context(), &appsv1.Deployment{}, ownerField, func(o client.Object) []string {
		if owner, ok := sample.Owner(o); ok {
			return []string{owner.Name}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wanted := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[sample.Ignored] == "" })
	err = ctrl.NewControllerManagedBy(p.manager).
		For(&sample.Foo{}, builder.WithPredicates(wanted, predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(&reconciler{p.manager.GetClient(), p.manager.GetAPIReader()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *managerProgram) run(ctx context.Context) error { return p.manager.Start(ctx) }

func (p *managerProgram) listen(ctx context.Context, h toolscache.ResourceEventHandler) error {
	informer, err := p.manager.GetCache().GetInformer(ctx, &sample.Foo{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(h)
	return err
}

func (p *managerProgram) cached(ctx context.Context) (versions, error) {
	var foos sample.FooList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&foos, &deployments} {
		if err := p.manager.GetClient().List(ctx, list, client.InNamespace(p.namespace)); err != nil {
			return nil, err
		}
	}
	held := versions{}
	for i := range foos.Items {
		held.add("Foo", &foos.Items[i])
	}
	for i := range deployments.Items {
		held.add("Deployment", &deployments.Items[i])
	}
	return held, nil
}

func (p *managerProgram) check(t *testing.T) {
	t.Helper()
	if p.used == nil {
		return
	}
	p.used.mu.Lock()
	defer p.used.mu.Unlock()
	kinds := slices.Sorted(maps.Keys(p.used.informers))
	if !slices.Equal(kinds, []string{"*sample.Foo", "*v1.Deployment"}) {
		t.Errorf("informers of %v were asked for", kinds)
	}
	for kind, informer := range p.used.informers {
		if got := packageOf(informer); got != tarn || !informer.HasSynced() {
			t.Errorf("the informer of %s is of %s, or has not been run", kind, got)
		}
	}
}
