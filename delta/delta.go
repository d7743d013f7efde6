package delta

import (
	"iter"

	"github.com/tarnproject/tarn/object"
)

// Deltas are the pending changes of one key, oldest first. Their kinds are those of
// DeltaFIFO: Added, Updated, Deleted, Replaced (a list contains the object) and Synced.
type Deltas[T any] []object.Change[T]

// Oldest returns the first delta; ok is false when there is none.
func (d Deltas[T]) Oldest() (delta object.Change[T], ok bool) {
	if len(d) == 0 {
		return object.Change[T]{}, false
	}
	return d[0], true
}

// Newest returns the last delta; ok is false when there is none.
func (d Deltas[T]) Newest() (delta object.Change[T], ok bool) {
	if len(d) == 0 {
		return object.Change[T]{}, false
	}
	return d[len(d)-1], true
}

// Known is the state that the consumer of a FIFO holds, usually a store. The FIFO calls it with its
// lock held; see [Options.Known].
type Known[T any] interface {
	// Keys yields the key of every object.
	Keys() iter.Seq[object.Key]
	// Get returns the object with the given key.
	Get(object.Key) (T, bool)
	// Held reports whether the object of the key is held with this UID and version.
	Held(object.Key, object.UID, object.Version) bool
}

// Options change how a [FIFO] works. The zero Options is ready to use.
type Options[T any] struct {
	// Known is the state that the consumer holds. Its keys exist: their deletions are queued,
	// and a list without them deletes them. Defaults to nil: only pending and in-flight keys
	// exist, deletions of others are dropped, and Resync does nothing.
	//
	// Known is read with the FIFO locked and while a process function runs. It
	// must be safe for concurrent use and must not call the FIFO, nor wait for
	// anything that does.
	Known Known[T]

	// ReplacedAsSync makes Pop return listed items as Synced instead of Replaced, as older
	// versions of client-go's DeltaFIFO do. Defaults to false.
	ReplacedAsSync bool
}
