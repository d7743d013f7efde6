package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// change is a change of one object to show.
type objectChange struct {
	res  object.Resource
	key  object.Key
	kind object.Kind
	// initial marks an object that existed when the view started.
	initial bool
	// unseen marks a deletion whose event was missed; obj is the last known state.
	unseen   bool
	old, obj *unstructured.Unstructured
}

func newObjectChange(res object.Resource, ev informer.Event[*unstructured.Unstructured]) objectChange {
	return objectChange{
		res: res, key: ev.Key, kind: ev.Kind, initial: ev.Initial, unseen: ev.Unknown,
		old: ev.Old(), obj: ev.New(),
	}
}

// word returns the type of the watch event.
func (h objectChange) eventType() string {
	switch h.kind {
	case object.Added:
		return "ADDED"
	case object.Deleted:
		return "DELETED"
	}
	return "MODIFIED"
}

// name returns the resource and key.
func (h objectChange) name() string { return h.res.String() + " " + h.key.String() }

// style returns the colour of the change.
func (h objectChange) style() style {
	switch {
	case h.initial:
		return regular
	case h.kind == object.Added:
		return green
	case h.kind == object.Deleted:
		return red
	}
	return yellow
}
