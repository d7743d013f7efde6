package tarn

import (
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Names of the packages below that most programs need, so that they import only this one.
type (
	// Key names an object: namespace and name.
	Key = object.Key
	// Result is the outcome of a reconcile.
	Result = controller.Result
	// Snapshot is the state of a mirror at one moment.
	Snapshot[T any] = store.Snapshot[T]
	// Event is a change as a subscriber receives it.
	Event[T any] = informer.Event[T]
	// Handler has the functions that are called for changes.
	Handler[T any] = informer.Handler[T]
	// SubOptions select what a subscriber receives. The zero SubOptions is everything.
	SubOptions[T any] = informer.SubOptions[T]
)

// The kinds of an [Event].
const (
	Added    = object.Added
	Updated  = object.Updated
	Deleted  = object.Deleted
	Replaced = object.Replaced
	Synced   = object.Synced
	Left     = object.Left
)

// NewIndex returns an index of objects by one key each; add it with [Mirror.AddIndex].
func NewIndex[T any, K comparable](name string, key func(T) K) *store.Index[T, K] {
	return store.NewIndex(name, key)
}
