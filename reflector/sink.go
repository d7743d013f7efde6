package reflector

import "github.com/tarnproject/tarn/object"

// Sink is what a reflector feeds. A *delta.FIFO is one, for a consumer in a goroutine of
// its own; a consumer that wants no way in between is a Sink itself, and may be a [Flusher].
//
// Its methods are called by one goroutine, that which is in Run or Step, but for Resync,
// which Run calls from another, and Held, which any may. An error of Add, Update or Delete
// that is not delta.ErrClosed concerns the object at hand, which goes to quarantine, or, if
// it was to be deleted, is told by DeleteUnknown. One of Resync ends the resyncs, and every
// other ends the reflector.
type Sink[T any] interface {
	// Add tells that a watch saw an object come to be.
	Add(obj T) error
	// Update tells that a watch saw a new version of an object.
	Update(obj T) error
	// Delete tells that a watch saw an object go; obj is its last state.
	Delete(obj T) error
	// DeleteUnknown tells that an object is gone of whose last state nothing can be read.
	DeleteUnknown(object.Tombstone[T]) error
	// Replace tells the whole state of a scope. The items are the sink's from then on.
	Replace(object.List[T]) error
	// Bookmark tells that everything up to the mark has been told. The events themselves tell
	// the same of the versions before theirs, and of their own unless it is that of a deletion,
	// which others may share ([object.Reach]).
	Bookmark(object.Mark) error
	// Resync asks for what is known to be told again; see [Options.Resync].
	Resync() error
	// Held reports whether an object is held at this UID and version, so that it need not
	// be read again.
	Held(object.Key, object.UID, object.Version) bool
	// HeldBy reports whether an object of this UID is held at this version or an earlier one,
	// so that a deletion at this version that comes late is that of the object held.
	HeldBy(object.Key, object.UID, object.Version) bool
}

// Flusher is a [Sink] that takes what arrived together as one.
type Flusher interface {
	// Flush is called after what arrived together has been told, which is everything up to
	// the mark, and the reflector's status says so, before the reflector waits for more. Of
	// deletions that share the mark's version some may be still to come.
	Flush(object.Mark)
}
