package registry

import (
	"reflect"
	"slices"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// mergeWrite returns the object that a write of next results in: through a subresource, only the
// fields of that subresource change. It may modify next, and shares memory with it.
func mergeWrite(k *kinds.Kind, subresource string, before, next runtime.Object) runtime.Object {
	old := before.DeepCopyObject()
	if subresource == "" || subresource == "finalize" {
		if k.Status {
			kinds.SetStatus(next, old)
		}
		switch o := next.(type) {
		case *corev1.Namespace:
			if subresource == "" {
				o.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
			}
		case *certificatesv1.CertificateSigningRequest:
			o.Spec = old.(*certificatesv1.CertificateSigningRequest).Spec
		}
		return next
	}
	merged := old
	withMeta := false
	switch subresource {
	case "status":
		withMeta = k.Typed && !kinds.StatusOnly[k.Kind]
		kinds.SetStatus(merged, next)
	case "approval":
		withMeta = true
		if m, ok := merged.(*certificatesv1.CertificateSigningRequest); ok { // not of another version
			m.Status.Conditions = next.(*certificatesv1.CertificateSigningRequest).Status.Conditions
		}
	case "ephemeralcontainers":
		merged.(*corev1.Pod).Spec.EphemeralContainers = next.(*corev1.Pod).Spec.EphemeralContainers
	case "resize":
		pod, sized := &merged.(*corev1.Pod).Spec, &next.(*corev1.Pod).Spec
		if k.Strict && !(sameNames(pod.Containers, sized.Containers) && sameNames(pod.InitContainers, sized.InitContainers)) {
			pod.Containers, pod.InitContainers = sized.Containers, sized.InitContainers // validation rejects them
			break
		}
		resize(pod, sized)
	}
	m := kinds.MetaOf(merged)
	if withMeta {
		owners := m.GetOwnerReferences()
		reflect.ValueOf(merged).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(next).Elem().FieldByName("ObjectMeta"))
		if k.Kind == "Pod" {
			m.SetOwnerReferences(owners)
		}
	} else if managed := kinds.MetaOf(next).GetManagedFields(); len(managed) > 0 {
		m.SetManagedFields(managed)
	}
	switch o := merged.(type) {
	case *corev1.Pod:
		keepPodStatus(o, before.(*corev1.Pod))
	case *certificatesv1.CertificateSigningRequest:
		was := before.(*certificatesv1.CertificateSigningRequest)
		if subresource == "status" {
			keepApproval(o, was)
		}
		dateConditions(o, was)
	}
	return merged
}

// keepPodStatus restores what a status update must not clear.
func keepPodStatus(pod, before *corev1.Pod) {
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = before.Status.QOSClass
	}
	if pod.Status.ObservedGeneration == 0 {
		pod.Status.ObservedGeneration = before.Status.ObservedGeneration
	}
}

// sameNames reports whether containers have the same names in the same order.
func sameNames(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Container) bool { return a.Name == b.Name })
}

// resize copies the resources of containers with the same name.
func resize(spec, from *corev1.PodSpec) {
	copyResources := func(to, from []corev1.Container) {
		for i := range to {
			if j := slices.IndexFunc(from, func(c corev1.Container) bool { return c.Name == to[i].Name }); j >= 0 {
				to[i].Resources, to[i].ResizePolicy = from[j].Resources, from[j].ResizePolicy
			}
		}
	}
	copyResources(spec.Containers, from.Containers)
	copyResources(spec.InitContainers, from.InitContainers)
}
