package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// happening is what happened to one object, as it is shown.
type happening struct {
	res  object.Resource
	key  object.Key
	kind object.Kind
	// initial marks an object that was there when the view began.
	initial bool
	// unseen marks a deletion that was noticed only later: obj is the last state known.
	unseen   bool
	old, obj *unstructured.Unstructured
}

func happened(res object.Resource, ev informer.Event[*unstructured.Unstructured]) happening {
	return happening{
		res: res, key: ev.Key, kind: ev.Kind, initial: ev.Initial, unseen: ev.Unknown,
		old: ev.Old(), obj: ev.New(),
	}
}

// word names what happened as the API does.
func (h happening) word() string {
	switch h.kind {
	case object.Added:
		return "ADDED"
	case object.Deleted:
		return "DELETED"
	}
	return "MODIFIED"
}

// name is the resource and the key.
func (h happening) name() string { return h.res.String() + " " + h.key.String() }

// style is the colour of what happened.
func (h happening) style() style {
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
