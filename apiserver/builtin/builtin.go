package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Default sets omitted fields of an object that a client sent to their defaults. It modifies
// obj, which the caller must own.
func Default(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		defaultPod(o)
	case *corev1.PodTemplate:
		defaultPodSpec(&o.Template.Spec)
	case *corev1.ReplicationController:
		defaultReplicationController(o)
	case *corev1.Service:
		defaultService(o)
	case *corev1.PersistentVolumeClaim:
		defaultClaim(&o.Spec)
	//lint:ignore SA1019 kube-apiserver still serves Endpoints
	case *corev1.Endpoints:
		defaultEndpoints(o)
	case *appsv1.Deployment:
		defaultDeployment(&o.Spec)
	case *appsv1.ReplicaSet:
		setDefault(&o.Spec.Replicas, 1)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		defaultStatefulSet(&o.Spec)
	case *appsv1.DaemonSet:
		defaultDaemonSet(o)
	case *batchv1.Job:
		defaultJob(o)
	case *batchv1.CronJob:
		defaultCronJob(&o.Spec)
	case *autoscalingv2.HorizontalPodAutoscaler:
		defaultAutoscaler(&o.Spec)
	case *rbacv1.RoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	default:
		defaultFixed(obj)
	}
}

// Prepare sets the fields that the server manages, after [Default] and before [Validate]. It
// modifies obj, which the caller must own, and reads old, which is nil for a new object.
func Prepare(obj, old runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		preparePod(o, was(o, old))
	case *corev1.Service:
		prepareService(o, was(o, old))
	case *corev1.PersistentVolumeClaim:
		prepareClaim(&o.Spec)
	case *coordinationv1.Lease:
		o.Spec.Strategy, o.Spec.PreferredHolder = nil, nil // the feature gate CoordinatedLeaderElection is off by default
	case *rbacv1.Role:
		if len(o.Rules) == 0 {
			o.Rules = nil
		}
	case *appsv1.DaemonSet:
		prepareDaemonSet(o, was(o, old))
	case *batchv1.Job:
		if old == nil {
			prepareJob(o)
		}
	}
}

// Validate returns the errors of a new object or, if old is not nil, of an update, except for
// those of metadata. It modifies neither object. Of a subresource other than "status" and those
// of pods nothing is validated: the server takes from it only the fields that it may change.
func Validate(obj, old runtime.Object, subresource string) field.ErrorList {
	var p problems
	switch subresource {
	case "":
	case "status":
		p.status(obj, old)
		return p.list
	case "ephemeralcontainers", "resize":
		pod, ok := obj.(*corev1.Pod)
		before, had := old.(*corev1.Pod)
		switch {
		case !ok || !had: // no other kind has them, and a new object has no subresource
		case subresource == "resize":
			p.resize(pod, before)
		default:
			p.ephemeralUpdate(pod, before)
		}
		return p.list
	default:
		return nil
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		p.pod(o, was(o, old))
	case *corev1.ReplicationController:
		p.replicationController(&o.Spec, spec)
	case *corev1.Service:
		p.service(o, was(o, old))
	case *corev1.ConfigMap:
		p.configMap(o, was(o, old))
	case *corev1.Secret:
		p.secret(o, was(o, old))
	case *corev1.PersistentVolumeClaim:
		p.claim(o, was(o, old))
	case *appsv1.Deployment:
		p.deployment(o, was(o, old))
	case *appsv1.ReplicaSet:
		p.replicaSet(o, was(o, old))
	case *appsv1.StatefulSet:
		p.statefulSet(o, was(o, old))
	case *appsv1.DaemonSet:
		p.daemonSet(o, was(o, old))
	case *batchv1.Job:
		p.job(o, was(o, old))
	case *batchv1.CronJob:
		p.cronJob(o, was(o, old))
	case *autoscalingv2.HorizontalPodAutoscaler:
		p.autoscaler(o, was(o, old))
	case *networkingv1.Ingress:
		p.ingress(o, old == nil)
	case *coordinationv1.Lease:
		p.lease(&o.Spec, spec)
	case *rbacv1.Role:
		p.rules(o.Rules, true)
	case *rbacv1.ClusterRole:
		p.rules(o.Rules, false)
		p.aggregation(o.AggregationRule)
	case *rbacv1.RoleBinding:
		p.binding(o.RoleRef, o.Subjects, true)
		if before := was(o, old); before != nil {
			p.sameRole(o.RoleRef, before.RoleRef)
		}
	case *rbacv1.ClusterRoleBinding:
		p.binding(o.RoleRef, o.Subjects, false)
		if before := was(o, old); before != nil {
			p.sameRole(o.RoleRef, before.RoleRef)
		}
	default:
		if old != nil {
			p.fixed(obj, old)
		}
	}
	return p.list
}

// was returns old as the type of the object that replaces it, or nil.
func was[T runtime.Object](_ T, old runtime.Object) (before T) {
	before, _ = old.(T)
	return before
}
