package kinds

import (
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// MetaOf returns the metadata of a decoded object.
func MetaOf(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic("apiserver: " + err.Error())
	}
	return m
}

// SetStatus copies the status of from, or clears it if from is nil.
func SetStatus(obj, from runtime.Object) {
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

// HasStatus reports whether an object of any Go type has a status that is not empty.
func HasStatus(obj runtime.Object) bool {
	if u, ok := obj.(runtime.Unstructured); ok {
		status, _ := u.UnstructuredContent()["status"].(map[string]any)
		return len(status) > 0
	}
	field := reflect.ValueOf(obj).Elem().FieldByName("Status")
	return field.IsValid() && !field.IsZero()
}

// SameSpec reports whether two objects of a kind differ only in metadata and status, for which
// the generation stays. Without
// the status subresource, the status of a custom resource is a field like any other.
func SameSpec(k *Kind, a, b runtime.Object) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		other := b.(*unstructured.Unstructured)
		bare := func(m map[string]any) map[string]any {
			out := maps.Clone(m)
			delete(out, "metadata")
			if k.Status {
				delete(out, "status")
			}
			return out
		}
		return equality.Semantic.DeepEqual(bare(u.Object), bare(other.Object))
	}
	if k.Typed && k.Kind == "PriorityClass" {
		return true
	}
	if k.Kind == "EndpointSlice" && !maps.Equal(MetaOf(a).GetLabels(), MetaOf(b).GetLabels()) {
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

// HasGeneration reports whether the kind increments metadata.generation.
func (k *Kind) HasGeneration() bool {
	if !k.Typed {
		return true
	}
	if noGeneration[k.String()] {
		return false
	}
	_, has := reflect.TypeOf(k.Empty()).Elem().FieldByName("Spec")
	return has || k.Group == "admissionregistration.k8s.io" || k.Kind == "EndpointSlice" || k.Kind == "PodTemplate" || k.Kind == "PriorityClass"
}

// Now returns the current time in the precision of metav1.Time.
func Now() metav1.Time { return metav1.Time{Time: time.Now().UTC().Truncate(time.Second)} }
