package apiserver

import (
	"strconv"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// record is one version of one object. Neither it nor its object is ever written to once
// it is stored, so that lists and watches share it without a lock.
type record struct {
	key     object.Key
	version uint64
	size    int // of the object, encoded
	obj     runtime.Object
	meta    metav1.Object
	// encoded are the object's bytes by form, made when first needed: a thousand watches
	// of one resource encode an object once.
	encoded [forms]atomic.Pointer[[]byte]
}

func newRecord(obj runtime.Object, version uint64) *record {
	m, err := meta.Accessor(obj)
	if err != nil {
		// Everything that is stored came through a decoder that made metadata.
		panic("apiserver: " + err.Error())
	}
	m.SetResourceVersion(formatVersion(version))
	return &record{
		key: object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, version: version, size: sizeOf(obj), obj: obj, meta: m,
	}
}

// at returns the same state with the version of something that happened to it later, as
// the DELETED event has it.
func (r *record) at(version uint64) *record { return newRecord(r.obj.DeepCopyObject(), version) }

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

// change is one write: old is nil for a creation, current for a deletion.
type change struct {
	kind    *kind
	version uint64
	old     *record
	current *record
	// last is old with the version of this change, which is what a watch is told when the
	// object goes away. Made when first needed.
	last *atomic.Pointer[record]
}

// size is what the change adds to the history: the state that it made or took away.
func (c *change) size() int {
	if c.current != nil {
		return c.current.size
	}
	return c.old.size
}

// gone returns the last state of an object that went away by this change, or out of a
// selection.
func (c *change) gone() *record {
	if r := c.last.Load(); r != nil {
		return r
	}
	// Two watches may both make one; either will do.
	r := c.old.at(c.version)
	c.last.Store(r)
	return r
}
