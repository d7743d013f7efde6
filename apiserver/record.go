package apiserver

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// record is one version of one object. The record and its object are never modified after
// they are stored, so lists and watches share them without a lock.
type record struct {
	key     object.Key
	version uint64
	size    int // encoded size of the object
	obj     runtime.Object
	meta    metav1.Object
	// schema is the one that a custom resource was pruned and defaulted with, or nil if it
	// must be done again to serve the object.
	schema Schema
	// encoded caches the object's bytes by encoding, so that any number of watches encode
	// it once.
	encoded [encodings]atomic.Pointer[[]byte]
}

func newRecord(obj runtime.Object, version uint64) *record {
	m, err := meta.Accessor(obj)
	if err != nil {
		// Every stored object was decoded into a type with metadata.
		panic("apiserver: " + err.Error())
	}
	m.SetResourceVersion(formatVersion(version))
	return &record{
		key: object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, version: version, size: sizeOf(obj), obj: obj, meta: m,
	}
}

// at returns a copy with a later version, for DELETED events.
func (r *record) at(version uint64) *record {
	later := newRecord(r.obj.DeepCopyObject(), version)
	later.schema = r.schema
	return later
}

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

// change is one write. old is nil for a creation, current for a deletion.
type change struct {
	kind    *kind
	version uint64
	at      time.Time
	old     *record
	current *record
	// last caches the result of deleted.
	last *atomic.Pointer[record]
}

// size returns the encoded size of the state that the change added or removed.
func (c *change) size() int {
	if c.current != nil {
		return c.current.size
	}
	return c.old.size
}

// deleted returns old at the version of this change, as sent in the DELETED event of an
// object that was deleted or no longer matches the selector.
func (c *change) deleted() *record {
	if r := c.last.Load(); r != nil {
		return r
	}
	// A concurrent watch may do the same; either result is valid.
	r := c.old.at(c.version)
	c.last.Store(r)
	return r
}
