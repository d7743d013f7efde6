package object

// Item is one object of a list or a watch event, at one of three stages: decoded,
// skipped because the receiver holds it already, or undecodable.
type Item[T any] struct {
	Key     Key
	UID     UID
	Version Version

	// Object is the decoded value; the zero value when Held or Err is set.
	Object T
	// Held says that the object was not decoded because the receiver holds it
	// with the same UID and version.
	Held bool
	// Err says why the object could not be decoded. The item still counts as
	// present: nobody may take it for deleted.
	Err error
	// Raw is the encoded object when Err is set, for quarantine.
	Raw []byte
}

// ItemOf makes the item of a decoded value.
func ItemOf[T any](acc Accessor[T], v T) (Item[T], error) {
	key, err := acc.Key(v)
	if err != nil {
		return Item[T]{}, err
	}
	return Item[T]{Key: key, UID: acc.UIDOf(v), Version: acc.VersionOf(v), Object: v}, nil
}

// List is the whole state of a scope at one version, as a list request or the
// initial events of a streaming list gave it. Order does not matter.
type List[T any] struct {
	Mark
	Items []Item[T]
}

// ListOf makes the list of decoded values, of everything, at a version.
func ListOf[T any](acc Accessor[T], version Version, values ...T) (List[T], error) {
	l := List[T]{Mark: Mark{Version: version}, Items: make([]Item[T], 0, len(values))}
	for _, v := range values {
		item, err := ItemOf(acc, v)
		if err != nil {
			return List[T]{}, err
		}
		l.Items = append(l.Items, item)
	}
	return l, nil
}

// EventType says what a watch event tells.
type EventType uint8

// The event types of the Kubernetes watch protocol.
const (
	// Unknown is a type that this version of Tarn does not know; it is counted
	// and skipped.
	Unknown EventType = iota
	// Added tells of an object that came to be, or came to match the selector.
	Added
	// Modified tells of a new version of an object.
	Modified
	// Deleted tells of an object that is gone, or no longer matches the
	// selector; the item is its last state with the version of the deletion.
	Deleted
	// Bookmark tells a version and nothing else.
	Bookmark
	// Failed carries an error that the server sent inside the stream.
	Failed
)

var eventTypes = [...]string{"UNKNOWN", "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}

// String returns the type as the watch protocol spells it.
func (t EventType) String() string {
	if int(t) < len(eventTypes) {
		return eventTypes[t]
	}
	return eventTypes[Unknown]
}

// ParseEventType reads the watch protocol's spelling; anything else is [Unknown].
func ParseEventType(s string) EventType {
	for i, name := range eventTypes {
		if name == s {
			return EventType(i)
		}
	}
	return Unknown
}

// Event is one event of a watch.
type Event[T any] struct {
	Type EventType
	// Item is the object of an Added, Modified or Deleted event. A Bookmark has
	// only its Version set.
	Item Item[T]
	// InitialEnd marks the Bookmark that ends a streaming list's initial events.
	InitialEnd bool
	// Err is the error of a Failed event.
	Err error
}
