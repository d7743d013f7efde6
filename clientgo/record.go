package clientgo

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
)

// record is what travels from a source to a store: a pointer, so that a store.Store holds it
// directly. Only the source that makes a record writes to it, before it passes the record on.
type record = *box

// box holds an object, which client-go allows to be of any type.
type box struct{ obj any }

// boxed reads keys, UIDs and versions of records.
var boxed = object.Accessor[record]{
	Key: func(r record) (object.Key, error) { return keyOf(r.obj) },
	UID: func(r record) object.UID {
		if m, err := meta.Accessor(r.obj); err == nil {
			return m.GetUID()
		}
		return ""
	},
	Version: func(r record) object.Version {
		version, _ := versionFrom(r.obj)
		return object.Version(version)
	},
}

// versionFrom returns the resource version of an object, if it is one that has any.
func versionFrom(obj any) (version string, ok bool) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", false
	}
	return m.GetResourceVersion(), true
}

// keyOf returns the key that client-go's DeletionHandlingMetaNamespaceKeyFunc gives an object.
// That of an object with metadata is not put together first.
func keyOf(obj any) (object.Key, error) {
	if m, ok := obj.(metav1.Object); ok {
		return metaKey(m), nil
	}
	text, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return object.Key{}, cache.KeyError{Obj: obj, Err: err}
	}
	return object.RawKey(text), nil
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

// seen returns a batch's mark as client-go counts: at the version of the last event, even if
// other deletions may share it (object.Mark).
func seen(b *object.Batch[record], m object.Mark) object.Mark {
	if n := len(b.Changes); n > 0 {
		if v := b.Changes[n-1].Version; v.Known() && !v.NotAfter(m.Version) {
			m.Version = v
		}
	}
	return m
}
