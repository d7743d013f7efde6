package object

// Value is an object as it travels from the decoder to its readers: decoded, or encoded and
// decoded again by each reader. It is written once, by the goroutine that decodes it; after
// that every holder only reads it, and so may share it.
type Value[T any] struct {
	// Object is the decoded object; the zero value where Encoded is set.
	Object T
	// Encoded is the object in an encoded form. Defaults to nil: Object is the object.
	Encoded Encoded[T]
}

// Encoded is an object that is held in another form than its own and decoded when read.
type Encoded[T any] interface {
	// Get returns the object, for any number of readers at once.
	Get() T
}

// Decoded returns the value of a decoded object.
func Decoded[T any](obj T) Value[T] { return Value[T]{Object: obj} }

// Get returns the object, decoding it where it is encoded; the zero value where there is
// none. The object is shared and must not be written to.
func (v Value[T]) Get() T {
	if v.Encoded != nil {
		return v.Encoded.Get()
	}
	return v.Object
}

// Item is one object of a list or a watch event: its identity, read once from the bytes, and
// its value. A source that does not decode an object says why: Held or Err.
type Item[T any] struct {
	Key     Key
	UID     UID
	Version Version

	// Value is the object; zero when Held or Err is set.
	Value[T]
	// Held says that the object was not decoded because the receiver holds it
	// with the same UID and version.
	Held bool
	// Err says why the object could not be decoded or prepared. The item still counts as
	// present: it is not deleted.
	Err error
	// Raw is the encoded object when Err is set, for quarantine.
	Raw []byte
	// Prepared says that [Intake.Prepare] has run.
	Prepared bool
}

// ItemOf makes the item of a decoded object.
func ItemOf[T any](acc Accessor[T], obj T) (Item[T], error) {
	key, err := acc.Key(obj)
	if err != nil {
		return Item[T]{}, err
	}
	return Item[T]{Key: key, UID: acc.UIDOf(obj), Version: acc.VersionOf(obj), Value: Decoded(obj)}, nil
}

// List is the whole state of a scope at one version, as a list request or the
// initial events of a streaming list gave it. Order does not matter.
type List[T any] struct {
	Mark
	Items []Item[T]
}

// ListOf makes the list of decoded objects, of everything, at a version.
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

// Event is one event of a watch: a change of an object, a bookmark or an error. One with
// none of these is of a type that this version of Tarn does not know.
type Event[T any] struct {
	// Kind is Added, Updated or Deleted where the event is a change, otherwise 0. The
	// object of a Deleted event is its last state with the version of the deletion.
	Kind Kind
	// Item is the object of a change. A bookmark sets only its Version.
	Item Item[T]
	// Bookmark says that everything up to Item.Version has been sent.
	Bookmark bool
	// InitialEnd marks the bookmark that ends a streaming list's initial events.
	InitialEnd bool
	// Err is an error that the server sent inside the stream.
	Err error
}
