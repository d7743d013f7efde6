package memcached

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer = "cache.example.com/finalizer"
	available = "Available" // the condition of a Deployment that is as wanted
	degraded  = "Degraded"  // the condition of a Memcached that is being deleted
	image     = "memcached:1.6.26-alpine3.19"
)

// Reconciler keeps a Deployment for each Memcached.
type Reconciler struct {
	client.Client
	Recorder events.EventRecorder
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Memcached{}).Owns(&appsv1.Deployment{}).Named("memcached").Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var m Memcached
	if err := r.Get(ctx, req.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if m.DeletionTimestamp != nil {
		return ctrl.Result{}, r.finalize(ctx, &m)
	}
	if len(m.Status.Conditions) == 0 {
		if err := r.report(ctx, &m, available, metav1.ConditionUnknown, "Starting reconciliation"); err != nil {
			return ctrl.Result{}, err
		}
	}
	if controllerutil.AddFinalizer(&m, finalizer) {
		if err := r.Update(ctx, &m); err != nil {
			return ctrl.Result{}, err
		}
	}
	var found appsv1.Deployment
	err := r.Get(ctx, req.NamespacedName, &found)
	switch {
	case apierrors.IsNotFound(err):
		wanted, err := r.deployment(&m)
		if err != nil {
			return ctrl.Result{}, r.report(ctx, &m, available, metav1.ConditionFalse, fmt.Sprintf("Failed to create Deployment for the custom resource (%s): (%s)", m.Name, err))
		}
		if err := r.Create(ctx, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
	case err != nil:
		return ctrl.Result{}, err
	case found.Spec.Replicas == nil || *found.Spec.Replicas != m.Spec.Size:
		found.Spec.Replicas = new(m.Spec.Size)
		if err := r.Update(ctx, &found); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.report(ctx, &m, available, metav1.ConditionTrue,
		fmt.Sprintf("Deployment for custom resource (%s) with %d replicas created successfully", m.Name, m.Spec.Size))
}

// finalize ends the life of a Memcached: its condition, an event, and the finalizer.
func (r *Reconciler) finalize(ctx context.Context, m *Memcached) error {
	if !controllerutil.ContainsFinalizer(m, finalizer) {
		return nil
	}
	if err := r.report(ctx, m, degraded, metav1.ConditionUnknown, "Performing finalizer operations for the custom resource: "+m.Name); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Recorder.Eventf(m, nil, corev1.EventTypeWarning, "Deleting", "Delete", "Custom Resource %s is being deleted from the namespace %s", m.Name, m.Namespace)
	if err := r.report(ctx, m, degraded, metav1.ConditionTrue, fmt.Sprintf("Finalizer operations for custom resource %s name were successfully accomplished", m.Name)); err != nil {
		return client.IgnoreNotFound(err)
	}
	controllerutil.RemoveFinalizer(m, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, m))
}

// report writes a condition if it changes.
func (r *Reconciler) report(ctx context.Context, m *Memcached, kind string, status metav1.ConditionStatus, message string) error {
	reason := map[string]string{available: "Reconciling", degraded: "Finalizing"}[kind]
	if !meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}) {
		return nil
	}
	return r.Status().Update(ctx, m)
}

func (r *Reconciler) deployment(m *Memcached) (*appsv1.Deployment, error) {
	labels := map[string]string{"app.kubernetes.io/name": "project", "app.kubernetes.io/instance": m.Name, "app.kubernetes.io/managed-by": "MemcachedController"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(m.Spec.Size),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
					Containers: []corev1.Container{{
						Name: "memcached", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
						SecurityContext: &corev1.SecurityContext{
							RunAsNonRoot: new(true), RunAsUser: new(int64(1001)), AllowPrivilegeEscalation: new(false),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						Ports:   []corev1.ContainerPort{{ContainerPort: m.Spec.ContainerPort, Name: "memcached"}},
						Command: []string{"memcached", "--memory-limit=64", "-o", "modern", "-v"},
					}},
				},
			},
		},
	}
	return d, ctrl.SetControllerReference(m, d, r.Scheme())
}
