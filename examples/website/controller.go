package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
)

// DNS is what the controller manages outside the cluster.
type DNS interface {
	// Set creates or removes the record of a host. Repeated calls do nothing.
	Set(ctx context.Context, host string, present bool) error
}

type reconciler struct {
	websites    *tarn.Client[*v1.Website]
	deployments *tarn.Client[*appsv1.Deployment]
	services    *tarn.Client[*corev1.Service]
	events      *tarn.Recorder
	dns         DNS
}

// addController adds the controller to a cluster, which runs it.
func addController(cluster *tarn.Cluster, dns DNS) error {
	websites, err := tarn.MirrorOf[*v1.Website](cluster)
	if err != nil {
		return err
	}
	deployments, err := tarn.MirrorOf[*appsv1.Deployment](cluster, tarn.Matching("app.kubernetes.io/managed-by=website"))
	if err != nil {
		return err
	}
	services, err := tarn.MirrorOf[*corev1.Service](cluster, tarn.Matching("app.kubernetes.io/managed-by=website"))
	if err != nil {
		return err
	}
	r := &reconciler{
		websites.Client("patch", "patch/status", "update/finalizers"),
		deployments.Client("create", "update"), services.Client("create", "update"),
		cluster.Recorder("website"), dns,
	}
	_, err = tarn.NewController(cluster, "website", r.reconcile,
		tarn.For(websites), tarn.Owns(deployments), tarn.Owns(services), tarn.Workers(4))
	return err
}

func (r *reconciler) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	site, err := r.websites.Get(ctx, key)
	if err != nil {
		return tarn.Result{}, tarn.IgnoreNotFound(err)
	}
	site, deleted, err := r.websites.Finalize(ctx, site, "example.com/dns", func(ctx context.Context, site *v1.Website) error {
		return r.dns.Set(ctx, site.Spec.Host, false)
	})
	if err != nil || deleted {
		return tarn.Result{}, err
	}
	if err := r.dns.Set(ctx, site.Spec.Host, true); err != nil {
		r.events.Warning(site, "DNSFailed", "Registering %s failed: %v", site.Spec.Host, err)
		return tarn.Result{}, err
	}
	about := metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}
	labels := map[string]string{"app.kubernetes.io/name": site.Name, "app.kubernetes.io/managed-by": "website"}
	deployment, outcome, err := r.deployments.CreateOrUpdate(ctx, &appsv1.Deployment{ObjectMeta: about}, func(d *appsv1.Deployment) error {
		d.Labels, d.Spec.Template.Labels = labels, labels
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Replicas = site.Spec.Replicas
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
		}
		c := &d.Spec.Template.Spec.Containers[0]
		c.Name, c.Image = "web", site.Spec.Image
		return r.websites.SetOwner(d, site)
	})
	if err != nil {
		return tarn.Result{}, fmt.Errorf("deployment: %w", err)
	}
	if outcome != tarn.OutcomeUnchanged {
		r.events.Normal(site, "Deployed", "Deployment %s %s with image %s", deployment.Name, outcome, site.Spec.Image)
	}
	_, _, err = r.services.CreateOrUpdate(ctx, &corev1.Service{ObjectMeta: about}, func(s *corev1.Service) error {
		s.Labels, s.Spec.Selector = labels, labels
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}}
		return r.websites.SetOwner(s, site)
	})
	if err != nil {
		return tarn.Result{}, fmt.Errorf("service: %w", err)
	}
	return tarn.Result{}, r.updateStatus(ctx, site, deployment)
}

func (r *reconciler) updateStatus(ctx context.Context, site *v1.Website, deployment *appsv1.Deployment) error {
	before := site.DeepCopyObject().(*v1.Website)
	site.Status.ObservedGeneration, site.Status.ReadyReplicas = site.Generation, deployment.Status.ReadyReplicas
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: site.Generation}
	if deployment.Status.ReadyReplicas > 0 {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Serving"
	}
	meta.SetStatusCondition(&site.Status.Conditions, ready)
	_, err := r.websites.PatchStatusFrom(ctx, before, site)
	return err
}
