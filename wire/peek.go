package wire

import (
	"strings"

	"github.com/tarnproject/tarn/object"
)

// identity is who an object is, as it stands in the object's bytes.
type identity struct {
	namespace, name, uid, version []byte
	kind                          kindBytes // where the encoding puts it into the object
}

// texts makes the strings of keys, UIDs and versions that do not come out of a
// decoded object. Nothing points into the network's buffers, and an object that is
// held already costs no allocation of its own: the objects of a list come in the
// order of their keys, so a namespace is mostly that of the object before, and the
// other strings are written into blocks of some kilobytes.
//
// A string keeps its block alive. Names have blocks of their own, since it is keys
// that receivers hold on to, and mostly those of neighbours together.
type texts struct {
	namespace     string
	names, others block
}

// key returns the key of an identity.
func (t *texts) key(id identity) object.Key {
	if string(id.namespace) != t.namespace {
		t.namespace = string(id.namespace)
	}
	return object.Key{Namespace: t.namespace, Name: t.names.bytes(id.name)}
}

// own returns the key with strings that do not belong to an object, so that who
// holds on to the key does not hold on to a version of the object.
func (t *texts) own(k object.Key) object.Key {
	if k.Namespace != t.namespace {
		t.namespace = strings.Clone(k.Namespace)
	}
	return object.Key{Namespace: t.namespace, Name: t.names.text(k.Name)}
}

// name sets key, UID and version of an item.
func name[T any](t *texts, item *object.Item[T], id identity) {
	item.Key = t.key(id)
	item.UID = object.UID(t.others.bytes(id.uid))
	item.Version = object.Version(t.others.bytes(id.version))
}

// block is memory for strings, taken from the front to the back. What a string
// refers to is never written again.
type block struct{ b strings.Builder }

const blockSize = 4 << 10

func (t *block) grow(n int) {
	if t.b.Cap()-t.b.Len() < n {
		t.b = strings.Builder{}
		t.b.Grow(max(blockSize, n))
	}
}

func (t *block) bytes(s []byte) string {
	t.grow(len(s))
	from := t.b.Len()
	t.b.Write(s)
	return t.b.String()[from:]
}

func (t *block) text(s string) string {
	t.grow(len(s))
	from := t.b.Len()
	t.b.WriteString(s)
	return t.b.String()[from:]
}
