package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// objectChange is a change of one object to show.
type objectChange struct {
	res  object.Resource
	key  object.Key
	kind object.Kind
	// initial marks an object that existed when the view started.
	initial bool
	// unseen marks a deletion whose event was missed; obj is the last known state.
	unseen   bool
	old, obj *unstructured.Unstructured
	row      *tableRow // instead of old and obj for the server's tables
}

// set sets the states before and after the change.
func (h *objectChange) set(old, new any) {
	switch new := new.(type) {
	case *unstructured.Unstructured:
		h.old, _ = old.(*unstructured.Unstructured)
		h.obj = new
	case *tableRow:
		h.row = new
	}
}

// eventText returns the type of the watch event for a table, where all have the same width.
func (h objectChange) eventText() string {
	switch {
	case h.initial:
		return fmt.Sprintf("%-8s", "-")
	case h.unseen:
		return h.eventType() + " (last known)"
	}
	return fmt.Sprintf("%-8s", h.eventType())
}

// eventType returns the type of the watch event.
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
