package kinds

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// selectableFields lists the fields that built-in kinds support besides name and namespace.
var selectableFields = map[string]string{
	"pods":                   "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase status.podIP status.nominatedNodeName",
	"events":                 "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type",
	"events.events.k8s.io":   "regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion regarding.resourceVersion regarding.fieldPath reason reportingController type",
	"secrets":                "type",
	"namespaces":             "status.phase",
	"nodes":                  "spec.unschedulable",
	"services":               "spec.clusterIP spec.type",
	"replicationcontrollers": "status.replicas",
	"replicasets.apps":       "status.replicas",
	"jobs.batch":             "status.successful",
	"certificatesigningrequests.certificates.k8s.io": "spec.signerName",
}

// Selectable reports whether field selectors may use the field.
func (k *Kind) Selectable(field string) bool {
	if field == "metadata.name" || field == "metadata.namespace" {
		return true
	}
	for f := range strings.FieldsSeq(selectableFields[k.String()]) {
		if f == field {
			return true
		}
	}
	for _, f := range k.SelectableFields {
		if f == field {
			return true
		}
	}
	return false
}

// NotSelectable returns the error message of the real server, which differs for kinds with
// selectable fields of their own.
func (k *Kind) NotSelectable(field string) string {
	if k.Typed && selectableFields[k.String()] == "" {
		return fmt.Sprintf("%q is not a known field selector: only %q, %q", field, "metadata.name", "metadata.namespace")
	}
	return "field label not supported: " + field
}

// FieldOf returns the value of a selectable field, or "" if it is absent.
func FieldOf(obj runtime.Object, field string) string {
	switch o := obj.(type) {
	case *corev1.Pod:
		// Every kubelet selects by this field, so avoid the conversion.
		switch field {
		case "spec.nodeName":
			return o.Spec.NodeName
		case "status.phase":
			return string(o.Status.Phase)
		}
	case *corev1.Event:
		switch field {
		case "source":
			if o.Source.Component == "" {
				return o.ReportingController
			}
			return o.Source.Component
		case "involvedObject.name":
			return o.InvolvedObject.Name
		case "involvedObject.uid":
			return string(o.InvolvedObject.UID)
		}
	case *batchv1.Job:
		if field == "status.successful" {
			return strconv.Itoa(int(o.Status.Succeeded))
		}
	}
	tree := ContentOf(obj)
	value, _, _ := unstructured.NestedFieldNoCopy(tree, strings.Split(field, ".")...)
	switch v := value.(type) {
	case nil:
		if field == "spec.unschedulable" || field == "spec.hostNetwork" {
			return "false"
		}
		if field == "status.replicas" {
			return "0"
		}
		return ""
	case string:
		return v
	}
	return fmt.Sprint(value)
}

// ContentOf returns an object as an unstructured tree. The caller must not modify it.
func ContentOf(obj runtime.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil // all API types convert
	}
	return tree
}

// StorageField translates a field path to the storage kind.
func (k *Kind) StorageField(path string) string {
	if first, rest, more := strings.Cut(path, "."); k.Kind == "Event" && !k.isStorage() && eventNames[first] != "" {
		if path = eventNames[first]; more {
			path += "." + rest
		}
	}
	return path
}

// eventNames maps field names of events.k8s.io/v1 to those of core events.
var eventNames = map[string]string{
	"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent", "deprecatedSource": "source",
	"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}
