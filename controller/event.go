package controller

import "k8s.io/apimachinery/pkg/runtime"

// EventRecorder is client-go's events.EventRecorder.
type EventRecorder interface {
	// Eventf records an event about an object, and perhaps a related one.
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Recorder records Kubernetes events about objects of type T. Create its EventRecorder with
// client-go's package tools/events:
//
//	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
//	recorder := controller.NewRecorder[*corev1.Pod](broadcaster.NewRecorder(scheme, "web"))
//
// Its methods never block and are safe for concurrent use.
type Recorder[T runtime.Object] struct{ events EventRecorder }

// NewRecorder returns a recorder for objects of one type. With a nil EventRecorder it does
// nothing.
func NewRecorder[T runtime.Object](events EventRecorder) Recorder[T] { return Recorder[T]{events} }

// Normal records an event of type Normal.
// Reason and action are short, in UpperCamelCase, such as "Scaled" and "Scaling".
func (r Recorder[T]) Normal(obj T, reason, action, note string, args ...any) {
	r.record(obj, "Normal", reason, action, note, args)
}

// Warning records an event of type Warning.
func (r Recorder[T]) Warning(obj T, reason, action, note string, args ...any) {
	r.record(obj, "Warning", reason, action, note, args)
}

func (r Recorder[T]) record(obj T, kind, reason, action, note string, args []any) {
	if r.events != nil {
		r.events.Eventf(obj, nil, kind, reason, action, note, args...)
	}
}
