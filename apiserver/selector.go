package apiserver

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"

	batchv1 "k8s.io/api/batch/v1"
)

// selection selects objects of a kind. The zero value selects all.
type selection struct {
	namespace string
	name      string
	labels    labels.Selector   // nil for any
	fields    fields.Selector   // nil for any
	shard     sharding.Selector // nil for any
}

// everything reports whether at most the namespace or a shard restricts the selection, so that the
// remaining items can be counted without evaluating selectors. As on the real server, the count then
// includes the objects outside of the shard.
func (s selection) everything() bool { return s.name == "" && s.labels == nil && s.fields == nil }

func (s selection) matches(k *kind, r *record) bool {
	switch {
	case s.namespace != "" && r.key.Namespace != s.namespace:
		return false
	case s.name != "" && r.key.Name != s.name:
		return false
	case s.labels != nil && !s.labels.Matches(labels.Set(r.meta.GetLabels())):
		return false
	}
	if s.shard != nil {
		if in, err := s.shard.Matches(r.obj); err != nil || !in {
			return false
		}
	}
	return s.fields == nil || s.fields.Matches(fieldsOf{k, r})
}

// fieldsOf adapts an object to [fields.Fields].
type fieldsOf struct {
	kind   *kind
	record *record
}

// Has implements [fields.Fields].
func (f fieldsOf) Has(field string) bool { return f.kind.selectable(field) }

// Get implements [fields.Fields].
func (f fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.record.key.Name
	case "metadata.namespace":
		return f.record.key.Namespace
	}
	return fieldOf(f.kind.working(f.record), f.kind.storageField(field))
}

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

// selectable reports whether field selectors may use the field.
func (k *kind) selectable(field string) bool {
	if field == "metadata.name" || field == "metadata.namespace" {
		return true
	}
	for f := range strings.FieldsSeq(selectableFields[k.String()]) {
		if f == field {
			return true
		}
	}
	for _, f := range k.selectableFields {
		if f == field {
			return true
		}
	}
	return false
}

// notSelectable returns the error message of the real server, which differs for kinds with
// selectable fields of their own.
func (k *kind) notSelectable(field string) string {
	if k.typed && selectableFields[k.String()] == "" {
		return fmt.Sprintf("%q is not a known field selector: only %q, %q", field, "metadata.name", "metadata.namespace")
	}
	return "field label not supported: " + field
}

// fieldOf returns the value of a selectable field, or "" if it is absent.
func fieldOf(obj runtime.Object, field string) string {
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
	tree := contentOf(obj)
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

// contentOf returns an object as an unstructured tree. The caller must not modify it.
func contentOf(obj runtime.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil // all API types convert
	}
	return tree
}

// parseShard parses a shard selector. Matching and its text are those of apimachinery. The real server
// answers an invalid one with an internal error.
func parseShard(text string) (sharding.Selector, error) {
	by, ranges, err := object.ParseRanges(text)
	if err != nil {
		return nil, failed("invalid shard selector: " + strings.TrimPrefix(err.Error(), object.ErrShard.Error()+": "))
	}
	requirements := make([]sharding.ShardRangeRequirement, len(ranges))
	for i, r := range ranges {
		start, end := r.Bounds()
		requirements[i] = sharding.ShardRangeRequirement{Key: by.String(), Start: start, End: end}
	}
	return sharding.NewSelector(requirements...), nil
}

// shardInfo returns what a typed list says about the shard; nil without one.
func (s selection) shardInfo() *metav1.ShardInfo {
	if s.shard == nil {
		return nil
	}
	return &metav1.ShardInfo{Selector: s.shard.String()}
}

// newSelection builds a selection from a request's selectors.
func newSelection(k *kind, namespace, name string, l labels.Selector, f fields.Selector) (selection, error) {
	sel := selection{namespace: namespace, name: name}
	if l != nil && !l.Empty() {
		sel.labels = l
	}
	if f == nil || f.Empty() {
		return sel, nil
	}
	for _, req := range f.Requirements() {
		if !k.selectable(req.Field) {
			return sel, apierrors.NewBadRequest(k.notSelectable(req.Field))
		}
	}
	sel.fields = f
	return sel, nil
}
