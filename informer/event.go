package informer

import "github.com/tarnproject/tarn/object"

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

// eventFilter turns changes into the events of one subscriber: it drops those of objects for which it returns false.
// A nil filter drops nothing.
type eventFilter[T any] func(T) bool

// event returns the subscriber's event for a change; ok is false if the subscriber does not
// receive it. It is small enough to be inlined, so that subscribers without a filter pay nothing.
func (passes eventFilter[T]) event(c *object.Change[T], initial bool) (e Event[T], ok bool) {
	e.Change = *c
	e.Initial = initial && c.Kind == object.Added
	if passes == nil {
		return e, true
	}
	return passes.apply(e, initial)
}

func (passes eventFilter[T]) apply(e Event[T], initial bool) (Event[T], bool) {
	switch e.Kind {
	case object.Deleted, object.Left:
		return e, passes(e.Change.Old())
	case object.Updated:
		was, is := passes(e.Change.Old()), passes(e.Change.New())
		switch {
		case is && !was:
			e.Kind, e.Initial = object.Added, initial
		case was && !is:
			e.Kind, e.left = object.Deleted, true
		}
		return e, was || is
	}
	return e, passes(e.Change.New())
}
