package stream

import (
	"strings"

	"github.com/tarnproject/tarn/object"
)

// identity is the key, UID and version of an object, as slices of its bytes.
type identity struct {
	namespace, name, uid, version []byte
	kind                          kindBytes // if the encoding stores it in the object
}

// outside reports whether an object is certainly not in a shard.
func (id identity) outside(s object.Shard) bool {
	switch s.By() {
	case object.ByUID:
		return !s.ContainsHash(object.Hash(id.uid))
	case object.ByNamespace:
		return !s.ContainsHash(object.Hash(id.namespace))
	}
	return false
}

// texts creates the strings of keys, UIDs and versions that are not part of a decoded object.
// They do not refer to network buffers, and an object that is held already costs no
// allocation of its own: a list is sorted by key, so most objects have the namespace of the
// one before, and the other strings are copied into blocks of a few kilobytes.
//
// A string keeps its block alive. Names have their own blocks, because receivers keep keys
// and mostly those of neighbours together.
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

// own returns a copy of the key that does not keep the memory of a decoded object alive.
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

// block is memory for strings. It is filled from front to back; bytes that a string refers to
// are never written again.
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
