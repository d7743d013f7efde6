package object

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UID distinguishes objects that have the same key at different times. The empty UID means
// unknown.
type UID = types.UID

// Accessor reads the identity of values of type T. Key is required. UID, Version and Labels
// may be nil for values that have none; without UID and version every write counts as a
// change.
//
// The functions run on every event, so they must be fast. They must return the same result
// for a value for as long as it is in use.
type Accessor[T any] struct {
	// Key returns the object's key.
	Key func(T) (Key, error)
	// UID returns the object's UID. Defaults to none.
	UID func(T) UID
	// Version returns the object's resource version. Defaults to none.
	Version func(T) Version
	// Labels returns the object's labels. The caller does not write to them.
	// Defaults to none.
	Labels func(T) map[string]string
}

// Meta returns the accessor for objects with Kubernetes metadata: every typed
// API object, unstructured.Unstructured and PartialObjectMetadata.
func Meta[T metav1.Object]() Accessor[T] {
	return Accessor[T]{
		Key:     func(o T) (Key, error) { return Key{Namespace: o.GetNamespace(), Name: o.GetName()}, nil },
		UID:     func(o T) UID { return o.GetUID() },
		Version: func(o T) Version { return Version(o.GetResourceVersion()) },
		Labels:  func(o T) map[string]string { return o.GetLabels() },
	}
}

// Keyed returns an accessor for values that have a key and nothing else.
func Keyed[T any](key func(T) Key) Accessor[T] {
	return Accessor[T]{Key: func(v T) (Key, error) { return key(v), nil }}
}

// Valid returns an error if a required function is missing.
func (a Accessor[T]) Valid() error {
	if a.Key == nil {
		return errors.New("object: accessor without a Key function; use object.Meta for Kubernetes objects or object.Keyed for others")
	}
	return nil
}

// UIDOf returns the UID of v, empty if the accessor has no UID function.
func (a Accessor[T]) UIDOf(v T) UID {
	if a.UID == nil {
		return ""
	}
	return a.UID(v)
}

// VersionOf returns the version of v, empty if the accessor has no Version function.
func (a Accessor[T]) VersionOf(v T) Version {
	if a.Version == nil {
		return ""
	}
	return a.Version(v)
}

// LabelsOf returns the labels of v, nil if the accessor has no Labels function.
func (a Accessor[T]) LabelsOf(v T) map[string]string {
	if a.Labels == nil {
		return nil
	}
	return a.Labels(v)
}

// Tombstone represents a deleted object whose DELETED event was missed. Object is its last
// known state, which may be stale.
type Tombstone[T any] struct {
	Key    Key
	Object T
}

// KeyError reports that a value has no key.
type KeyError struct {
	// Value is the value without a key.
	Value any
	// Cause is the reason.
	Cause error
}

// Error names the value's type and the cause, never the value itself, which may contain
// secrets.
func (e *KeyError) Error() string {
	return fmt.Sprintf("object: no key for a value of type %T: %v", e.Value, e.Cause)
}

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Cause }

// ErrNoMetadata is the cause of a [KeyError] for a value without metadata.
var ErrNoMetadata = errors.New("it has no object metadata; pass API objects as pointers")

// KeyOf returns the key of a value that is a [Key] or has Kubernetes metadata. The error is a
// [*KeyError].
func KeyOf(v any) (Key, error) {
	if k, ok := v.(Key); ok {
		return k, nil
	}
	m, ok := metaOf(v)
	if !ok {
		return Key{}, &KeyError{Value: v, Cause: ErrNoMetadata}
	}
	return Key{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

func metaOf(v any) (metav1.Object, bool) {
	switch v := v.(type) {
	case metav1.Object:
		return v, true
	case metav1.ObjectMetaAccessor:
		m := v.GetObjectMeta()
		return m, m != nil
	}
	return nil, false
}
