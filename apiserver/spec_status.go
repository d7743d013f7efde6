package apiserver

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
)

// metaOf returns the metadata of a decoded object.
func metaOf(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic("apiserver: " + err.Error())
	}
	return m
}

// setStatus copies the status of from, or clears it if from is nil.
func setStatus(obj, from runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		delete(u.Object, "status")
		if from != nil {
			if status, ok := from.(*unstructured.Unstructured).Object["status"]; ok {
				u.Object["status"] = status
			}
		}
		return
	}
	field := reflect.ValueOf(obj).Elem().FieldByName("Status")
	if !field.IsValid() {
		return
	}
	if from == nil {
		field.SetZero()
		return
	}
	field.Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
}

// hasStatus reports whether an object of any Go type has a status that is not empty.
func hasStatus(obj runtime.Object) bool {
	if u, ok := obj.(runtime.Unstructured); ok {
		return len(nested[map[string]any](u.UnstructuredContent(), "status")) > 0
	}
	field := reflect.ValueOf(obj).Elem().FieldByName("Status")
	return field.IsValid() && !field.IsZero()
}

// sameSpec reports whether two objects of a kind differ only in metadata and status, for which
// the generation stays. Without
// the status subresource, the status of a custom resource is a field like any other.
func sameSpec(k *kind, a, b runtime.Object) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		other := b.(*unstructured.Unstructured)
		bare := func(m map[string]any) map[string]any {
			out := maps.Clone(m)
			delete(out, "metadata")
			if k.status {
				delete(out, "status")
			}
			return out
		}
		return equality.Semantic.DeepEqual(bare(u.Object), bare(other.Object))
	}
	if k.typed && k.Kind == "PriorityClass" {
		return true
	}
	if k.Kind == "EndpointSlice" && !maps.Equal(metaOf(a).GetLabels(), metaOf(b).GetLabels()) {
		return false // they count on the real server
	}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// noGeneration lists the kinds with a spec but without a generation.
var noGeneration = map[string]bool{
	"namespaces": true, "nodes": true, "services": true, "persistentvolumes": true, "persistentvolumeclaims": true,
	"resourcequotas": true, "limitranges": true, "leases.coordination.k8s.io": true,
	"horizontalpodautoscalers.autoscaling": true, "certificatesigningrequests.certificates.k8s.io": true, "csinodes.storage.k8s.io": true,
	"volumeattachments.storage.k8s.io": true, "servicecidrs.networking.k8s.io": true, "resourceclaims.resource.k8s.io": true,
	"resourceclaimtemplates.resource.k8s.io": true,
}

// hasGeneration reports whether the kind increments metadata.generation.
func (k *kind) hasGeneration() bool {
	if !k.typed {
		return true
	}
	if noGeneration[k.String()] {
		return false
	}
	_, has := reflect.TypeOf(k.empty()).Elem().FieldByName("Spec")
	return has || k.Group == "admissionregistration.k8s.io" || k.Kind == "EndpointSlice" || k.Kind == "PodTemplate" || k.Kind == "PriorityClass"
}

// normalise applies the effects that conversion has on the real server.
func normalise(obj runtime.Object) {
	if ns, ok := obj.(*corev1.Namespace); ok && ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	for name, text := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = []byte(text)
	}
	secret.StringData = nil
}

// setInitialPhase sets the status that the real server sets on creation.
func setInitialPhase(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.PodPending
		}
	case *corev1.Namespace:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.NamespaceActive
		}
		if !slices.Contains(o.Spec.Finalizers, corev1.FinalizerKubernetes) {
			o.Spec.Finalizers = append(o.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
	case *corev1.PersistentVolume:
		if o.Status.Phase == "" {
			at := now()
			o.Status.Phase, o.Status.LastPhaseTransitionTime = corev1.VolumePending, &at
		}
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.ClaimPending
		}
	}
}
