package pods

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedFields returns the managed fields of the pod: the controller manager owns metadata and
// spec, the kubelet the status.
func (p planned) managedFields(pod *corev1.Pod, created time.Time) []metav1.ManagedFieldsEntry {
	at, later := metav1.NewTime(created), metav1.NewTime(created.Add(40*time.Second))
	return []metav1.ManagedFieldsEntry{
		{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(specFields(pod)),
		},
		{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1", Time: &later, FieldsType: "FieldsV1", Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(statusFields),
		},
	}
}

const statusFields = `{"f:status":{"f:conditions":{` +
	`"k:{\"type\":\"ContainersReady\"}":{".":{},"f:status":{}},` +
	`"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},` +
	`"f:containerStatuses":{},"f:phase":{},"f:podIPs":{}}}`

// specFields returns the fields that the controller manager owns, abbreviated for containers.
func specFields(pod *corev1.Pod) string {
	var b strings.Builder
	b.WriteString(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{}`)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		b.WriteString(`,"f:` + name + `":{}`)
	}
	b.WriteString(`},"f:ownerReferences":{}},"f:spec":{"f:containers":{`)
	for i, c := range pod.Spec.Containers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(`k:{"name":"` + c.Name + `"}`))
		b.WriteString(`:{".":{},"f:env":{},"f:image":{},"f:ports":{},"f:resources":{}}`)
	}
	b.WriteString(`},"f:tolerations":{},"f:volumes":{}}}`)
	return b.String()
}
