package special

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pod has the rules of pods.
type pod struct{ plain }

func (pod) Start(obj runtime.Object) {
	p := obj.(*corev1.Pod)
	p.Status.Phase = cmp.Or(p.Status.Phase, corev1.PodPending)
}

// With strict, validation rejects other containers.
func (pod) Copy(subresource string, to, from runtime.Object, strict bool) {
	spec, next := &to.(*corev1.Pod).Spec, &from.(*corev1.Pod).Spec
	switch {
	case subresource == "ephemeralcontainers":
		spec.EphemeralContainers = next.EphemeralContainers
	case subresource != "resize":
	case strict && !(sameNames(spec.Containers, next.Containers) && sameNames(spec.InitContainers, next.InitContainers)):
		spec.Containers, spec.InitContainers = next.Containers, next.InitContainers
	default:
		resize(spec.Containers, next.Containers)
		resize(spec.InitContainers, next.InitContainers)
	}
}

// sameNames reports whether containers have the same names in the same order.
func sameNames(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Container) bool { return a.Name == b.Name })
}

// resize copies the resources of containers with the same name.
func resize(to, from []corev1.Container) {
	for i := range to {
		if j := slices.IndexFunc(from, func(c corev1.Container) bool { return c.Name == to[i].Name }); j >= 0 {
			to[i].Resources, to[i].ResizePolicy = from[j].Resources, from[j].ResizePolicy
		}
	}
}

// Settle restores what a status update must not clear.
func (pod) Settle(_ string, next, old runtime.Object) {
	p, was := next.(*corev1.Pod), old.(*corev1.Pod)
	p.OwnerReferences = slices.Clone(was.OwnerReferences)
	p.Status.QOSClass = cmp.Or(p.Status.QOSClass, was.Status.QOSClass)
	p.Status.ObservedGeneration = cmp.Or(p.Status.ObservedGeneration, was.Status.ObservedGeneration)
}

// Only pods that are assigned to a node and not finished have one.
func (pod) GracePeriod(obj runtime.Object, opts *metav1.DeleteOptions) int64 {
	p := obj.(*corev1.Pod)
	switch grace := p.Spec.TerminationGracePeriodSeconds; {
	case p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		return 0
	case opts.GracePeriodSeconds != nil && *opts.GracePeriodSeconds < 0:
		return 1
	case opts.GracePeriodSeconds != nil:
		return *opts.GracePeriodSeconds
	case grace != nil:
		return *grace
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

func (pod) MarkedFirst() bool { return true }
