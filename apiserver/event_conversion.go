package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Events are served in the core group and in events.k8s.io with different field names. They
// are stored once, as core events.

// joinEvents makes core events the storage kind of events.k8s.io/v1.
func joinEvents(kinds []*kind) {
	var core *kind
	for _, k := range kinds {
		if k.GVK() == corev1.SchemeGroupVersion.WithKind("Event") {
			core = k
		}
	}
	for _, k := range kinds {
		if core != nil && k.GVK() == eventsv1.SchemeGroupVersion.WithKind("Event") {
			k.storage = core
		}
	}
}

// converted returns the version gv of an object of a built-in kind, which shares memory with obj.
// If obj is in that version or there is no such conversion, it is obj.
func converted(obj runtime.Object, gv schema.GroupVersion) runtime.Object {
	switch o := obj.(type) {
	case *eventsv1.Event:
		if gv == corev1.SchemeGroupVersion {
			return coreEvent(o)
		}
	case *corev1.Event:
		if gv == eventsv1.SchemeGroupVersion {
			return eventOf(o)
		}
	}
	return obj
}

// toStorage converts an object to its storage version. In custom resources, only apiVersion
// differs, and fields that the schema of the storage version does not have are dropped.
func (k *kind) toStorage(obj runtime.Object) runtime.Object {
	if k.typed {
		obj = converted(obj, k.storage.GVK().GroupVersion())
	}
	if k.schema != k.storageSchema && k.storageSchema != nil {
		_, _ = k.storageSchema.Prune(obj.(*unstructured.Unstructured)) // the metadata was decoded before
	}
	obj.GetObjectKind().SetGroupVersionKind(k.storage.GVK())
	return obj
}

// coreEvent converts an event of events.k8s.io/v1 to one of the core group.
func coreEvent(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Message: e.Note, Type: e.Type, Action: e.Action,
		Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
		EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return out
}

// eventOf converts a stored event to events.k8s.io/v1. The result shares memory with e.
func eventOf(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, Regarding: e.InvolvedObject, Related: e.Related, Reason: e.Reason, Note: e.Message, Type: e.Type, Action: e.Action,
		DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
		EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	return out
}

// eventNames maps field names of events.k8s.io/v1 to those of core events.
var eventNames = map[string]string{
	"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent", "deprecatedSource": "source",
	"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}

// storageField translates a field path to the storage kind.
func (k *kind) storageField(path string) string {
	if first, rest, more := strings.Cut(path, "."); k.Kind == "Event" && !k.isStorage() && eventNames[first] != "" {
		if path = eventNames[first]; more {
			path += "." + rest
		}
	}
	return path
}
