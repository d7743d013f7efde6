package clients

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestControllerRuntimesManagerWorks(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		again := true // the test runs more than once in a process
		mgr, err := ctrl.NewManager(s.config, ctrl.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again},
			Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
			LeaderElection: true, LeaderElectionID: "e2e", LeaderElectionNamespace: s.namespace, LeaderElectionReleaseOnCancel: true,
			Logger: logr.Discard(),
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 10)
		err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(reconciler(func(ctx context.Context, req ctrl.Request) error {
			var pod corev1.Pod
			if err := mgr.GetClient().Get(ctx, req.NamespacedName, &pod); err != nil {
				return client.IgnoreNotFound(err)
			}
			if pod.Labels["seen"] == "yes" {
				done <- pod.Name
				return nil
			}
			before := pod.DeepCopy()
			pod.Labels["seen"] = "yes"
			return mgr.GetClient().Patch(ctx, &pod, client.MergeFrom(before))
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- mgr.Start(ctx) }()
		if _, err := s.clientset(t).CoreV1().Pods(s.namespace).Create(patience.Context(t), pod(s.namespace, "a", map[string]string{"seen": "no"}), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		select {
		case name := <-done:
			if name != "a" {
				t.Errorf("got %s", name)
			}
		case <-time.After(patience.Limit):
			t.Error("the controller did not see its own patch")
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		lease, err := s.clientset(t).CoordinationV1().Leases(s.namespace).Get(patience.Context(t), "e2e", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "" {
			t.Errorf("the lease was not released: %v, %v", lease, err)
		}
	})
}

type reconciler func(context.Context, ctrl.Request) error

func (r reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, r(ctx, req)
}
