package delta

import (
	"iter"

	"github.com/tarnproject/tarn/object"
)

// Type says what happened to an object.
type Type uint8

// The types of deltas.
const (
	// Added: a watch saw the object come to be.
	Added Type = iota + 1
	// Updated: a watch saw a new version.
	Updated
	// Deleted: a watch saw the object go, or a list no longer had it.
	Deleted
	// Replaced: a list had the object; it may be new, changed or the same.
	Replaced
	// Sync: nothing happened; the known state is told again.
	Sync
)

var typeNames = [...]string{"Invalid", "Added", "Updated", "Deleted", "Replaced", "Sync"}

// String returns the type's name.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return typeNames[0]
}

// Delta is one thing that happened: to the object of Key, or, when List is set,
// to everything in a scope at once.
type Delta[T any] struct {
	Type Type
	// Unknown marks a Deleted delta whose Object is not the final state but the
	// last one known, because the deletion itself was missed.
	Unknown bool
	Key     object.Key
	// Object is the new state, or the last one for Deleted. It is the zero value
	// only for a tombstone of which nothing was known but the key, and for a List.
	Object T
	// List is set in batches only, with Type Replaced and a zero Key: the whole
	// state of the list's scope. What is known there and not listed is deleted.
	List *object.List[T]
}

// Deltas are the pending deltas of one key, oldest first.
type Deltas[T any] []Delta[T]

// Oldest returns the first delta; ok is false when there is none.
func (d Deltas[T]) Oldest() (delta Delta[T], ok bool) {
	if len(d) == 0 {
		return Delta[T]{}, false
	}
	return d[0], true
}

// Newest returns the last delta; ok is false when there is none.
func (d Deltas[T]) Newest() (delta Delta[T], ok bool) {
	if len(d) == 0 {
		return Delta[T]{}, false
	}
	return d[len(d)-1], true
}

// Batch is everything that was pending at one moment. It is valid, with its
// slices, only while the function runs that it was handed to.
type Batch[T any] struct {
	// Deltas in the order in which they came. Keys may repeat.
	Deltas []Delta[T]
	// Marks tell, for each scope that the batch moved, up to where it is complete
	// afterwards ([object.Reach]). A bookmark moves a mark without a delta. Where the last
	// event was a deletion, the mark is that of the version before. A mark without a version
	// says that nothing is known of the scope.
	Marks []object.Mark
}

// Known is what the consumer holds already: usually a store. It is asked with the
// FIFO locked; [Options] says what that asks of it.
type Known[T any] interface {
	// Keys yields the key of every object.
	Keys() iter.Seq[object.Key]
	// Get returns the object of a key.
	Get(object.Key) (T, bool)
	// Held reports whether the object of the key is known with just this UID and
	// version.
	Held(object.Key, object.UID, object.Version) bool
}
