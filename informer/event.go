package informer

import (
	"reflect"

	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is a change as one subscriber receives it. Kind is what happened; Synced marks a replay
// by a resync, without a change. Old and New return the objects and decode them if the mirror
// stores them encoded. The objects are shared and must not be modified. An event may be kept; it
// keeps its objects alive.
type Event[T any] struct {
	object.Change[T]
	// Initial marks an Added event that belongs to the subscriber's initial state.
	Initial bool

	left bool // it no longer passes the filter
}

// Old returns the previous state of the object; the zero value for Added.
func (e Event[T]) Old() (obj T) {
	switch e.Kind {
	case object.Added:
		return obj
	case object.Synced:
		return e.Change.New()
	}
	return e.Change.Old()
}

// New returns the current state of the object. For Left it is the last known state. For Deleted it is the final state or, if Unknown
// is set, the last known state. For an object that still exists but no longer passes the filter,
// it is the last state that passed.
func (e Event[T]) New() T {
	if e.left {
		return e.Change.Old()
	}
	return e.Change.New()
}

// eventFilter turns changes into the events of one subscriber: it drops those that the subscriber's
// options exclude.
type eventFilter[T any] struct {
	filter     func(T) bool
	statusOnly bool // leave out updates of nothing but the status
}

// open reports whether the filter drops nothing.
func (f *eventFilter[T]) open() bool { return f.filter == nil && !f.statusOnly }

// event returns the subscriber's event for a change; ok is false if the subscriber does not
// receive it. It is small enough to be inlined, so that subscribers without a filter pay nothing.
func (f *eventFilter[T]) event(c *object.Change[T], initial bool) (e Event[T], ok bool) {
	e.Change = *c
	e.Initial = initial && c.Kind == object.Added
	if f.open() {
		return e, true
	}
	return f.apply(e, initial)
}

func (f *eventFilter[T]) apply(e Event[T], initial bool) (Event[T], bool) {
	switch e.Kind {
	case object.Deleted, object.Left:
		return e, f.passes(e.Change.Old())
	case object.Updated:
		was, is := f.passes(e.Change.Old()), f.passes(e.Change.New())
		switch {
		case is && !was:
			e.Kind, e.Initial = object.Added, initial
		case was && !is:
			e.Kind, e.left = object.Deleted, true
		case f.statusOnly && !e.Rewound && sameButStatus(e.Change.Old(), e.Change.New()):
			// After a rewind the same generation may be of another spec.
			return e, false
		}
		return e, was || is
	}
	return e, f.passes(e.Change.New())
}

func (f *eventFilter[T]) passes(obj T) bool { return f.filter == nil || f.filter(obj) }

// hasGeneration reports whether values of type T have, or may have, the metadata that
// sameButStatus compares.
func hasGeneration[T any]() bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Interface || t.Implements(reflect.TypeFor[metav1.Object]())
}

// sameButStatus is [object.StatusOnly] for values that may have no metadata.
func sameButStatus[T any](old, new T) bool {
	a, ok := any(old).(metav1.Object)
	if !ok {
		return false
	}
	b, ok := any(new).(metav1.Object)
	return ok && object.StatusOnly(a, b)
}
