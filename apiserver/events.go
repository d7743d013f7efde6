package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Events are served in two groups, by different names of their fields, and stored once, as
// those of the core group.

// joinEvents makes the events of events.k8s.io/v1 those of the core group.
func joinEvents(kinds []*kind) {
	var core *kind
	for _, k := range kinds {
		if k.GVK() == corev1.SchemeGroupVersion.WithKind("Event") {
			core = k
		}
	}
	for _, k := range kinds {
		if core != nil && k.GVK() == eventsv1.SchemeGroupVersion.WithKind("Event") {
			k.home = core
		}
	}
}

// toHome converts an object of the kind to the one that is stored. Except for events they
// differ in their version alone, which it sets.
func (k *kind) toHome(obj runtime.Object) runtime.Object {
	if e, ok := obj.(*eventsv1.Event); ok && !k.stored() {
		core := &corev1.Event{
			ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Message: e.Note, Type: e.Type, Action: e.Action,
			Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
			EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		}
		if e.Series != nil {
			core.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
		}
		obj = core
	}
	obj.GetObjectKind().SetGroupVersionKind(k.home.GVK())
	return obj
}

// eventOf shows a stored event in events.k8s.io/v1. It shares parts with it.
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

// eventNames are the fields of events.k8s.io/v1 by those of the core group.
var eventNames = map[string]string{
	"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent", "deprecatedSource": "source",
	"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}

// homeField is the name in the stored kind of a field of this one.
func (k *kind) homeField(path string) string {
	if first, rest, more := strings.Cut(path, "."); k.Kind == "Event" && !k.stored() && eventNames[first] != "" {
		if path = eventNames[first]; more {
			path += "." + rest
		}
	}
	return path
}

// homeTree makes what a client applied a tree of the stored kind.
func (k *kind) homeTree(applied *unstructured.Unstructured) {
	if k.typed && !k.stored() {
		for name, value := range applied.Object {
			if home := k.homeField(name); home != name {
				delete(applied.Object, name)
				applied.Object[home] = value
			}
		}
	}
	applied.SetGroupVersionKind(k.home.GVK())
}
