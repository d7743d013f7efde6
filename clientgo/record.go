package clientgo

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
)

// record is an object under its key, and what travels from a source to a store. client-go
// lets a program choose both freely, so that the key need not be found in the object.
type record struct {
	key object.Key
	obj any
}

// The accessor of a DeltaFIFO has neither UID nor version: in client-go every write counts,
// whatever its version, and an object with another UID is just another state.
var plain = object.Accessor[record]{
	Key: func(r record) (object.Key, error) { return r.key, nil },
}

// versionFrom returns the resource version of an object, if it is one that has any.
func versionFrom(obj any) (version string, ok bool) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", false
	}
	return m.GetResourceVersion(), true
}

// keyOf returns the key that client-go's MetaNamespaceKeyFunc gives an object, without
// putting it together.
func keyOf(obj any) (object.Key, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		// The words are client-go's.
		_, err := cache.MetaNamespaceKeyFunc(obj)
		return object.Key{}, err
	}
	return metaKey(m), nil
}

// metaKey returns the key of an object by its metadata. It is the one that the text
// "namespace/name" would have, also for a name with a slash in it.
func metaKey(m metav1.Object) object.Key {
	namespace, name := m.GetNamespace(), m.GetName()
	if namespace == "" {
		return object.RawKey(name)
	}
	return object.Key{Namespace: namespace, Name: name}
}
