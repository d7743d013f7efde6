package object

import "strings"

// Item is one object of a list or a watch event, at one of four stages: decoded, at rest
// in the form in which the receiver will hold it, skipped because the receiver holds it
// already, or undecodable.
type Item[T any] struct {
	Key     Key
	UID     UID
	Version Version

	// Object is the decoded value; the zero value when Rest, Held or Err is set.
	Object T
	// Rest is the object in the form in which the receiver will hold it, so that a list
	// need not be decoded all at once. [Item.Value] reads it.
	Rest Resting[T]
	// Held says that the object was not decoded because the receiver holds it
	// with the same UID and version.
	Held bool
	// Err says why the object could not be decoded. The item still counts as
	// present: nobody may take it for deleted.
	Err error
	// Raw is the encoded object when Err is set, for quarantine.
	Raw []byte
}

// Resting is an object that rests in another form than its own: encoded, say.
type Resting[T any] interface {
	// Object returns the object, for any number of readers at once.
	Object() T
}

// Value returns the object, decoded if it is at rest; the zero value where there is none.
func (i *Item[T]) Value() T {
	if i.Rest != nil {
		return i.Rest.Object()
	}
	return i.Object
}

// Settle puts the object to rest, and has the item keep nothing of the decoded one: its
// names are copied, because a decoder may have cut them from one buffer with all the
// rest. The namespace is that of the item before, if it is the same.
func (i *Item[T]) Settle(rest Resting[T], before *Item[T]) {
	var none T
	i.Object, i.Rest = none, rest
	name, uid := len(i.Key.Name), len(i.UID)
	text := i.Key.Name + string(i.UID) + string(i.Version)
	i.Key.Name, i.UID, i.Version = text[:name], UID(text[name:name+uid]), Version(text[name+uid:])
	if before != nil && before.Key.Namespace == i.Key.Namespace {
		i.Key.Namespace = before.Key.Namespace
	} else {
		i.Key.Namespace = strings.Clone(i.Key.Namespace)
	}
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
