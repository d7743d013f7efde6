package special

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// namespace has the rules of namespaces.
type namespace struct{ plain }

func (namespace) Normalise(obj runtime.Object) {
	ns := obj.(*corev1.Namespace)
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func (namespace) Start(obj runtime.Object) {
	ns := obj.(*corev1.Namespace)
	ns.Status.Phase = cmp.Or(ns.Status.Phase, corev1.NamespaceActive)
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func (namespace) Keep(subresource string, next, old runtime.Object) {
	if subresource != "finalize" {
		next.(*corev1.Namespace).Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
	}
}

// The first deletion of a namespace only marks it, so that nothing is created
// in it while its content is deleted.
func (namespace) StaysMarked(obj runtime.Object) bool {
	ns := obj.(*corev1.Namespace)
	return ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) > 0
}

func (namespace) Mark(obj runtime.Object) {
	ns := obj.(*corev1.Namespace)
	ns.Status.Phase, ns.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil
}
