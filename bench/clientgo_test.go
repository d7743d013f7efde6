package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarnproject/tarn/apiserver"
	adapters "github.com/tarnproject/tarn/clientgo"
)

// configs keeps a ConfigMap for each Deployment that is labelled, in the way of a
// controller-runtime program: it has no line that is Tarn's. Which ConfigMaps a Deployment
// owns it asks the field index.
type configs struct {
	client.Client
	done chan string
}

const ownerField = ".metadata.controller"

func (r *configs) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d appsv1.Deployment
	if err := r.Get(ctx, req.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var owned corev1.ConfigMapList
	if err := r.List(ctx, &owned, client.InNamespace(req.Namespace), client.MatchingFields{ownerField: req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	want := fmt.Sprint(*d.Spec.Replicas)
	if len(owned.Items) == 0 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}, Data: map[string]string{"replicas": want}}
		if err := ctrl.SetControllerReference(&d, cm, r.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Create(ctx, cm); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	if cm := &owned.Items[0]; cm.Data["replicas"] != want {
		before := cm.DeepCopy()
		cm.Data["replicas"] = want
		return ctrl.Result{}, r.Patch(ctx, cm, client.MergeFrom(before))
	}
	r.done <- req.Name + " " + want
	return ctrl.Result{}, nil
}

// setUp registers the controller; the two functions are what a program changes.
func setUp(mgr ctrl.Manager, r *configs, newQueue func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, ownerField, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Deployment" {
			return []string{owner.Name}
		}
		return nil
	})
	if err != nil {
		return err
	}
	labelled := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()["config"] == "yes" })
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}, builder.WithPredicates(labelled, predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2, NewQueue: newQueue}).
		Complete(r)
}

func TestAControllerRuntimeManagerRunsOnTheAdapters(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for _, name := range []string{"web", "ignored"} {
		label := "yes"
		if name == "ignored" {
			label = "no"
		}
		if _, err := s.Create(deployment(name, label, 1)); err != nil {
			t.Fatal(err)
		}
	}
	again := true // the test may run more than once in a process
	mgr, err := ctrl.NewManager(s.Config(), ctrl.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &again},
		Cache:      cache.Options{NewInformer: adapters.NewSharedIndexInformer},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &configs{mgr.GetClient(), make(chan string, 100)}
	queues := make(chan priorityqueue.PriorityQueue[reconcile.Request], 1)
	err = setUp(mgr, r, func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q := adapters.NewPriorityQueue[reconcile.Request, priorityqueue.AddOpts](name, limiter)
		queues <- q.(priorityqueue.PriorityQueue[reconcile.Request])
		return q
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	reach := func(when, want string) {
		t.Helper()
		for {
			select {
			case got := <-r.done:
				if got == want {
					return
				}
				if got == "ignored 1" {
					t.Fatal("a predicate was passed over")
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s: %s did not come", when, want)
			}
		}
	}
	reach("there at the start", "web 1")
	if _, err := s.Update(deployment("web", "yes", 2)); err != nil {
		t.Fatal(err)
	}
	reach("changed", "web 2")
	drained(r.done)
	if err := s.Delete(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	reach("what it owns was deleted", "web 2")
	s.Cut("")
	if _, err := s.Create(deployment("late", "yes", 3)); err != nil {
		t.Fatal(err)
	}
	reach("after the watches were cut", "late 3")
	select {
	case <-queues:
	default:
		t.Error("the queue was not asked for")
	}
}

func drained(c chan string) {
	for len(c) > 0 {
		<-c
	}
}

func deployment(name, label string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"config": label}},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}
