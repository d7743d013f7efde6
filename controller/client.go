package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// API is what a [Client] writes through: the writing verbs of one resource, with the
// options W of a write, P that is a patch and the options D of a delete. A *wire.API[T]
// is one. What is written comes back as the server made it.
type API[T, W, P, D any] interface {
	// Create stores a new object.
	Create(ctx context.Context, obj T, opts W) (T, error)
	// Update replaces an object.
	Update(ctx context.Context, obj T, opts W) (T, error)
	// UpdateStatus replaces the status of an object.
	UpdateStatus(ctx context.Context, obj T, opts W) (T, error)
	// Patch changes an object, or a part of it when a subresource is named.
	Patch(ctx context.Context, key object.Key, patch P, opts W, subresource ...string) (T, error)
	// Delete asks for an object to be deleted.
	Delete(ctx context.Context, key object.Key, opts D) error
}

// Client writes objects of which there is a mirror, and remembers what it wrote until the
// mirror shows it: the key in whose reconcile something was written, and [Client.Get],
// wait for that. Before each write it asks the fence of the context. Its methods are
// those of the [API], and may be called from any goroutine; pass them the context of the
// reconcile.
//
// Dry runs are for the API itself: nothing will ever show them.
type Client[T metav1.Object, W, P, D any] struct {
	api API[T, W, P, D]
	inf *informer.Informer[T]

	mu    sync.Mutex // guards all below
	marks map[object.Key]mark
	room  int // marks before those that are shown are swept out
}

// mark is what was last done to a key. Versions are with informer.Writes; a delete
// returns none.
type mark struct {
	uid     object.UID
	deleted bool
}

// NewClient makes a client for the objects of an informer.
func NewClient[T metav1.Object, W, P, D any](api API[T, W, P, D], inf *informer.Informer[T]) *Client[T, W, P, D] {
	return &Client[T, W, P, D]{api: api, inf: inf, marks: map[object.Key]mark{}, room: 64}
}

// Get returns the object of a key from the mirror. The error wraps [ErrStaleCache] if that
// does not show yet what this process wrote to it; return it from the reconcile.
func (c *Client[T, W, P, D]) Get(key object.Key) (obj T, ok bool, err error) {
	if c.pending(key) {
		return obj, false, write{c, key}.stale()
	}
	obj, ok = c.inf.Get(key)
	return obj, ok, nil
}

// Create stores a new object.
func (c *Client[T, W, P, D]) Create(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, func() (T, error) { return c.api.Create(ctx, obj, opts) })
}

// Update replaces an object.
func (c *Client[T, W, P, D]) Update(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, func() (T, error) { return c.api.Update(ctx, obj, opts) })
}

// UpdateStatus replaces the status of an object.
func (c *Client[T, W, P, D]) UpdateStatus(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, func() (T, error) { return c.api.UpdateStatus(ctx, obj, opts) })
}

// Patch changes an object, or a part of it when a subresource is named.
func (c *Client[T, W, P, D]) Patch(ctx context.Context, key object.Key, patch P, opts W, subresource ...string) (T, error) {
	return c.write(ctx, func() (T, error) { return c.api.Patch(ctx, key, patch, opts, subresource...) })
}

// Delete asks for an object to be deleted. The mirror shows that when the object is gone
// or has a deletion time: finalizers may keep it for long.
func (c *Client[T, W, P, D]) Delete(ctx context.Context, key object.Key, opts D) error {
	if err := MayWrite(ctx); err != nil {
		return err
	}
	m := mark{deleted: true}
	if obj, ok := c.inf.Get(key); ok {
		m.uid = obj.GetUID()
	}
	if err := c.api.Delete(ctx, key, opts); err != nil {
		return err
	}
	c.mu.Lock()
	if own, ok := c.marks[key]; ok && c.inf.Writes().Pending(key) {
		m.uid = own.uid // newer than what the mirror shows
	}
	if m.uid != "" {
		c.put(key, m)
	}
	c.mu.Unlock()
	noteWrite(ctx, write{c, key})
	return nil
}

func (c *Client[T, W, P, D]) write(ctx context.Context, do func() (T, error)) (T, error) {
	if err := MayWrite(ctx); err != nil {
		var none T
		return none, err
	}
	obj, err := do()
	if err != nil {
		return obj, err
	}
	switch err := c.inf.Writes().Wrote(obj); {
	case errors.Is(err, informer.ErrNoVersion):
		return obj, nil // nothing was stored, or nobody can tell
	case err != nil:
		return obj, fmt.Errorf("%s: written, but not noted: %w", c.inf.Name(), err)
	}
	key := object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	c.mu.Lock()
	c.put(key, mark{uid: obj.GetUID(), deleted: c.marks[key] == mark{obj.GetUID(), true}})
	c.mu.Unlock()
	noteWrite(ctx, write{c, key})
	return obj, nil
}

// noteWrite tells the reconcile of a context of a write.
func noteWrite(ctx context.Context, w write) {
	if s, ok := ctx.Value(scopeKey{}).(reconciling); ok {
		s.wrote(w)
	}
}

func (c *Client[T, W, P, D]) put(key object.Key, m mark) {
	if len(c.marks) >= c.room {
		for key := range c.marks {
			if !c.unseen(key) {
				delete(c.marks, key)
			}
		}
		c.room = max(64, 2*len(c.marks))
	}
	c.marks[key] = m
}

func (c *Client[T, W, P, D]) name() string { return c.inf.Name() }

// pending implements cache.
func (c *Client[T, W, P, D]) pending(key object.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unseen(key) {
		return true
	}
	delete(c.marks, key)
	return false
}

// unseen reports whether the mirror lacks what was done to a key. The lock must be held.
func (c *Client[T, W, P, D]) unseen(key object.Key) bool {
	if pending(c.inf, key) {
		return true
	}
	m := c.marks[key]
	if !m.deleted {
		return false
	}
	obj, ok := c.inf.Get(key)
	return ok && obj.GetUID() == m.uid && obj.GetDeletionTimestamp() == nil
}
