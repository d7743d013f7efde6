package object

// Change is one change of one object, or, when List is set, of everything in a scope. The
// same type is used from the reflector to the last subscriber: the reflector sets identity
// and value, the queue keeps them, and the store adds the prior state.
//
// Its values are shared and must not be written to. A Change may be kept, and keeps its
// objects alive.
type Change[T any] struct {
	Kind Kind
	// Unknown marks a Deleted change whose value is not the object's final state but
	// the last one known, because the deletion itself was not observed.
	Unknown bool
	// Rewound marks an Updated change whose prior state belongs, or may belong, to an earlier
	// epoch: the server's history was restored in between, so neither versions nor
	// generations of the two compare.
	Rewound bool

	// Key, UID and Version identify the new state, or for Deleted and Left the last one. UID and
	// Version are empty where they are not known.
	Key     Key
	UID     UID
	Version Version

	// Value is the new state, or the last one for Deleted and Left. It is zero for a List and for a
	// deletion of which only the identity is known. For Quarantined it is an [Unreadable], or zero if
	// the quarantine of the key has ended; the Name is empty if the object's key cannot be read, and
	// the Namespace that of the scope.
	Value Value[T]
	// Prior is the previous state in the store. It is zero before the store has applied the
	// change, and for Added.
	Prior Value[T]

	// List is the complete state of a scope; Kind is then Replaced and Key zero. The receiver
	// deletes the objects of that scope that are not in the list, and drops those outside of the
	// list's Shard (Left).
	List *List[T]
}

// ChangeOf returns a change with the identity and value of an item.
func ChangeOf[T any](kind Kind, item *Item[T]) Change[T] {
	return Change[T]{Kind: kind, Key: item.Key, UID: item.UID, Version: item.Version, Value: item.Value}
}

// New returns the object after the change. For Deleted that is its final state or, if
// Unknown is set, the last known one; for Left the last known one.
func (c Change[T]) New() T { return c.Value.Get() }

// Old returns the object before the change; the zero value for Added.
func (c Change[T]) Old() T { return c.Prior.Get() }

// Batch is a sequence of changes in the server's order, and the marks that the receiver
// reaches with them. The sender owns a batch: the receiver may read it and its slices until
// the call returns. It may keep the values.
type Batch[T any] struct {
	// Changes in the order in which they happened. Keys may repeat.
	Changes []Change[T]
	// Marks has one mark for each scope that the batch advances. A bookmark is a mark
	// without changes.
	Marks []Mark
}

// Sink receives the changes of a resource. *delta.Buffer and *delta.FIFO implement it. Its methods must be
// safe for concurrent use.
type Sink[T any] interface {
	// Apply receives a batch. An error stops the sender.
	Apply(*Batch[T]) error
	// Held reports whether the sink holds an object with this UID and version, or will after
	// it has processed what is pending. Sources do not decode such an object again.
	Held(Key, UID, Version) bool
}
