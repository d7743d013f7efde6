package kinds

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Events are served in the core group and in events.k8s.io with different field names, and
// HorizontalPodAutoscalers in two versions of their group. Each is stored once.

// joined maps the kinds that are converted to those that they are stored in.
var joined = map[schema.GroupVersionKind]schema.GroupVersionKind{
	eventsv1.SchemeGroupVersion.WithKind("Event"):                        corev1.SchemeGroupVersion.WithKind("Event"),
	autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
}

// join sets the storage kinds.
func join(kinds []*Kind) {
	by := map[schema.GroupVersionKind]*Kind{}
	for _, k := range kinds {
		by[k.GVK()] = k
	}
	for from, to := range joined {
		by[from].Storage = by[to]
	}
}

// Converted returns the version gv of an object of a built-in kind, which shares memory with obj.
// If obj is in that version or there is no such conversion, it is obj.
func Converted(obj runtime.Object, gv schema.GroupVersion) runtime.Object {
	switch o := obj.(type) {
	case *eventsv1.Event:
		if gv == corev1.SchemeGroupVersion {
			return coreEvent(o)
		}
	case *corev1.Event:
		if gv == eventsv1.SchemeGroupVersion {
			return eventOf(o)
		}
	case *autoscalingv1.HorizontalPodAutoscaler:
		if gv == autoscalingv2.SchemeGroupVersion {
			return autoscalerV2(o)
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		if gv == autoscalingv1.SchemeGroupVersion {
			return autoscalerV1(o)
		}
	}
	return obj
}

// ToStorage converts an object to its storage version. In custom resources, only apiVersion
// differs, and fields that the schema of the storage version does not have are dropped.
func (k *Kind) ToStorage(obj runtime.Object) runtime.Object {
	if k.Typed {
		obj = Converted(obj, k.Storage.GVK().GroupVersion())
	}
	if k.Schema != k.StorageSchema && k.StorageSchema != nil {
		_, _ = k.StorageSchema.Prune(obj.(*unstructured.Unstructured)) // the metadata was decoded before
	}
	obj.GetObjectKind().SetGroupVersionKind(k.Storage.GVK())
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
