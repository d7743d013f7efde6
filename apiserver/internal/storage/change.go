package storage

import (
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
)

// change is one write. old is nil for a creation, current for a deletion.
type change struct {
	kind    *kinds.Kind
	version uint64
	at      time.Time
	old     *kinds.Record
	current *kinds.Record
	// last caches the result of deleted.
	last *atomic.Pointer[kinds.Record]
}

// size returns the encoded size of the state that the change added or removed.
func (c *change) size() int {
	if c.current != nil {
		return c.current.Size
	}
	return c.old.Size
}

// deleted returns old at the version of this change, as sent in the DELETED event of an
// object that was deleted or no longer matches the selector.
func (c *change) deleted() *kinds.Record {
	if r := c.last.Load(); r != nil {
		return r
	}
	// A concurrent watch may do the same; either result is valid.
	r := c.old.At(c.version)
	c.last.Store(r)
	return r
}

func (c *change) key() object.Key {
	if c.current != nil {
		return c.current.Key
	}
	return c.old.Key
}
