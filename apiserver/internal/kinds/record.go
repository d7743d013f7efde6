package kinds

import (
	"strconv"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Record is one version of one object. The record and its object are never modified after
// they are stored, so lists and watches share them without a lock.
type Record struct {
	Key     object.Key
	Version uint64
	Size    int // encoded size of the object
	Obj     runtime.Object
	Meta    metav1.Object
	// Schema is the one that a custom resource was pruned and defaulted with, or nil if it
	// must be done again to serve the object.
	Schema Schema
	// Encoded caches the object's bytes by encoding, so that any number of watches encode
	// it once.
	Encoded [Encodings]atomic.Pointer[[]byte]
}

// NewRecord returns the record of an object, whose resource version it sets.
func NewRecord(obj runtime.Object, version uint64) *Record {
	m, err := meta.Accessor(obj)
	if err != nil {
		// Every stored object was decoded into a type with metadata.
		panic("apiserver: " + err.Error())
	}
	m.SetResourceVersion(FormatVersion(version))
	return &Record{
		Key: object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, Version: version, Size: SizeOf(obj), Obj: obj, Meta: m,
	}
}

// NewUnstored wraps an object that is not stored, such as a dry run's result.
func NewUnstored(obj runtime.Object) *Record {
	m := MetaOf(obj)
	version := m.GetResourceVersion()
	r := NewRecord(obj, 0)
	m.SetResourceVersion(version)
	return r
}

// At returns a copy with a later version, for DELETED events.
func (r *Record) At(version uint64) *Record {
	later := NewRecord(r.Obj.DeepCopyObject(), version)
	later.Schema = r.Schema
	return later
}

// FormatVersion returns the text of a resource version.
func FormatVersion(v uint64) string { return strconv.FormatUint(v, 10) }
