// Command controller-runtime gives each namespace a NetworkPolicy that denies incoming traffic.
// It is a program for controller-runtime, on Tarn's mirrors.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tarnproject/tarn/controllerruntime"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		slog.Error("controller-runtime", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(config, ctrl.Options{})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager with the controller. The line with controllerruntime is Tarn's.
func newManager(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	options.NewCache = controllerruntime.NewCache
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Owns(&networkingv1.NetworkPolicy{}).
		Complete(&reconciler{mgr.GetClient()})
	return mgr, err
}

type reconciler struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := r.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "deny-ingress"}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, policy, func() error {
		policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		policy.Spec.Ingress = nil
		return controllerutil.SetControllerReference(&namespace, policy, r.Scheme())
	})
	return ctrl.Result{}, err
}
