package object

// Value is an object, decoded or encoded. An encoded object is decoded on read. The goroutine
// that decodes it sets it once; after that it is read-only and may be shared.
type Value[T any] struct {
	// Object is the decoded object; the zero value if Encoded is set.
	Object T
	// Encoded is the object in an encoded form. Defaults to nil: Object is the object.
	Encoded Encoded[T]
}

// Encoded is an object in an encoded form that is decoded on read.
type Encoded[T any] interface {
	// Get returns the decoded object. It is safe for concurrent use.
	Get() T
}

// Unreadable is the value of an object that could not be decoded or prepared.
type Unreadable[T any] struct {
	// Err is the cause.
	Err error
}

// Get returns the zero value.
func (Unreadable[T]) Get() (none T) { return none }

// Decoded returns the value of a decoded object.
func Decoded[T any](obj T) Value[T] { return Value[T]{Object: obj} }

// Get returns the object, decoded if necessary, or the zero value if there is none. The
// object is shared and must not be written to.
func (v Value[T]) Get() T {
	if v.Encoded != nil {
		return v.Encoded.Get()
	}
	return v.Object
}

// Item is one object of a list or a watch event: its identity, read once from the bytes, and
// its value. If the source did not decode the object, Held or Err is set.
type Item[T any] struct {
	Key     Key
	UID     UID
	Version Version

	// Value is the object; zero when Held or Err is set.
	Value[T]
	// Held is true if the object was not decoded because the receiver holds it with the
	// same UID and version.
	Held bool
	// Err is why the object could not be decoded or prepared. The item still counts as
	// present: it is not deleted.
	Err error
	// Raw is the encoded object: for quarantine when Err is set, and otherwise for
	// [Encoder].Encode until the item is prepared.
	Raw []byte
	// Prepared is true after [Intake.Prepare].
	Prepared bool
	// Outside is true if the object is not in [Intake.Shard]: the server does not shard. Only
	// the Version of an event is then set, and in a shard by UID the Key of an Updated one: it may
	// replace an object of the shard (W17). The receiver ignores the object.
	Outside bool
}

// ItemOf returns the item of a decoded object.
func ItemOf[T any](acc Accessor[T], obj T) (Item[T], error) {
	key, err := acc.Key(obj)
	if err != nil {
		return Item[T]{}, err
	}
	return Item[T]{Key: key, UID: acc.UIDOf(obj), Version: acc.VersionOf(obj), Value: Decoded(obj)}, nil
}

// List is the complete state of a scope at one version, from a list request or the initial
// events of a streaming list. Items are in no particular order.
type List[T any] struct {
	Mark
	Items []Item[T]
	// Part is what of Mark.Shard was listed: after the shard changed, only what is new. The receiver
	// keeps what is in the shard and not in Part. Defaults to all of it.
	Part Shard
}

// ListOf returns a list of decoded objects for the scope [Everything].
func ListOf[T any](acc Accessor[T], version Version, objs ...T) (List[T], error) {
	l := List[T]{Mark: Mark{Version: version}, Items: make([]Item[T], 0, len(objs))}
	for _, obj := range objs {
		item, err := ItemOf(acc, obj)
		if err != nil {
			return List[T]{}, err
		}
		l.Items = append(l.Items, item)
	}
	return l, nil
}

// Event is one event of a watch: a change of an object, a bookmark or an error. An event with
// none of these has a type that this version of Tarn does not know.
type Event[T any] struct {
	// Kind is Added, Updated or Deleted for a change, otherwise 0. The
	// object of a Deleted event is its last state with the version of the deletion.
	Kind Kind
	// Item is the object of a change. A bookmark sets only its Version.
	Item Item[T]
	// Bookmark means that everything up to Item.Version has been sent.
	Bookmark bool
	// InitialEnd marks the bookmark that ends a streaming list's initial events.
	InitialEnd bool
	// Err is an error that the server sent inside the stream.
	Err error
}
