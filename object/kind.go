package object

// Kind is the type of a change. Watch events, pending changes and the changes that
// subscribers receive all use it.
type Kind uint8

// The kinds of changes. The zero Kind is none of them.
const (
	// Added: the object was created, or entered the selection.
	Added Kind = iota + 1
	// Updated: a new version of the object.
	Updated
	// Deleted: the object was deleted, or left the selection.
	Deleted
	// Replaced: a list contains the object. It may be new, changed or the same.
	Replaced
	// Synced: nothing changed; the current state is reported again (a resync).
	Synced
	// Left: the object is no longer in the mirrored [Shard], because the shard changed. It may
	// exist, and belongs to another process: do not clean up after it.
	Left
	// Quarantined: the object exists in a state that could not be decoded or transformed; the change
	// has no value. A [Sink] keeps the last good state of that UID, and ends the life of an object
	// with another UID. Subscribers never receive it.
	Quarantined
)

var kindNames = [...]string{"None", "Added", "Updated", "Deleted", "Replaced", "Synced", "Left", "Quarantined"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}
