package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// API is what a [Client] writes through: the writing verbs of one resource, with the
// options W of a write, patches P, the options A of an apply and the options D of a
// delete. A *wire.API[T] is one. Each verb returns the server's answer.
type API[T, W, P, A, D any] interface {
	// Create stores a new object.
	Create(ctx context.Context, obj T, opts W) (T, error)
	// Update replaces an object.
	Update(ctx context.Context, obj T, opts W) (T, error)
	// UpdateStatus replaces the status of an object.
	UpdateStatus(ctx context.Context, obj T, opts W) (T, error)
	// Patch changes an object, or a part of it when a subresource is named.
	Patch(ctx context.Context, key object.Key, patch P, opts W, subresource ...string) (T, error)
	// Apply is server-side apply, of an object or a part of it when a subresource is named.
	// config is an apply configuration, an object, or anything else that becomes JSON.
	Apply(ctx context.Context, key object.Key, config any, opts A, subresource ...string) (T, error)
	// DeleteReturning deletes an object.
	DeleteReturning(ctx context.Context, key object.Key, opts D) (object.Deletion, error)
	// CheckAttempts returns a context with which the other methods call check before each
	// attempt of a request, retries included. If check returns an error, the attempt is not
	// sent and not retried, and the method returns an error that wraps it.
	CheckAttempts(ctx context.Context, check func() error) context.Context
}

// Client writes objects that an informer caches, and tracks each write until the cache has
// it: the key whose reconcile made the write is not reconciled before, and [Client.Get]
// returns [ErrStaleCache]. See [informer.Writes] for the details. Before each attempt of a
// write, retries included, it checks the fences of the context. Its methods are those of the
// [API] and safe for concurrent use; pass them the context of the reconcile.
//
// Use the API itself for dry runs, which no cache will ever have.
type Client[T metav1.Object, W, P, A, D any] struct {
	api API[T, W, P, A, D]
	inf *informer.Informer[T]
}

// NewClient returns a client for the objects of an informer.
func NewClient[T metav1.Object, W, P, A, D any](api API[T, W, P, A, D], inf *informer.Informer[T]) *Client[T, W, P, A, D] {
	return &Client[T, W, P, A, D]{api: api, inf: inf}
}

// Get returns the object with the given key from the cache. The error wraps [ErrStaleCache]
// if the cache is older than this process's last write to the key; return it from the
// reconcile. If the cache will never have that write, the error is the reason: it wraps
// [informer.ErrNotCovered] for an object outside the informer's selection, and is an
// [*informer.QuarantinedError] for one that the informer could not read or store. It is
// that too if the cache has no object because it could not read or store that of another writer.
func (c *Client[T, W, P, A, D]) Get(key object.Key) (obj T, ok bool, err error) {
	obj, ok, pending, err := c.inf.Writes().Peek(key)
	if pending {
		err = write{c, key}.stale()
	}
	return obj, ok, err
}

// Snapshot returns the current state of the cache, for reads of a part of it, by default of everything. In
// a reconcile the error wraps [ErrStaleCache] if
// the cache lacks a write of the same reconcile; it has those of earlier reconciles of the key. The
// writes of other keys do not matter: with many keys, one of them is almost always pending. For
// other contexts Snapshot waits until the cache has every write of this process to the part. The error
// is an [*informer.QuarantinedError] if the part may lack an object that this process wrote.
func (c *Client[T, W, P, A, D]) Snapshot(ctx context.Context, of ...informer.Part) (store.Snapshot[T], error) {
	s, ok := ctx.Value(scopeKey{}).(reconciling)
	if !ok {
		return c.inf.Writes().Snapshot(ctx, of...)
	}
	snap := c.inf.Snapshot()
	err := c.inf.Writes().Missing(snap, of...)
	for _, w := range s.madeWrites() {
		if pending := false; err == nil && w.to.holds(c.inf) {
			if pending, _ = c.inf.Writes().CheckIn(snap, w.key); pending {
				err = w.stale()
			}
		}
	}
	if err != nil {
		snap.Release()
		return store.Snapshot[T]{}, err
	}
	return snap, nil
}

// Create stores a new object.
func (c *Client[T, W, P, A, D]) Create(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, keyOf(obj), func(ctx context.Context) (T, error) { return c.api.Create(ctx, obj, opts) })
}

// Update replaces an object. An update that removes the last finalizer of an object in
// deletion counts as cached when the object is deleted from the cache.
func (c *Client[T, W, P, A, D]) Update(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, keyOf(obj), func(ctx context.Context) (T, error) { return c.api.Update(ctx, obj, opts) })
}

// UpdateStatus replaces the status of an object.
func (c *Client[T, W, P, A, D]) UpdateStatus(ctx context.Context, obj T, opts W) (T, error) {
	return c.write(ctx, keyOf(obj), func(ctx context.Context) (T, error) { return c.api.UpdateStatus(ctx, obj, opts) })
}

// Patch changes an object, or a part of it when a subresource is named.
func (c *Client[T, W, P, A, D]) Patch(ctx context.Context, key object.Key, patch P, opts W, subresource ...string) (T, error) {
	return c.write(ctx, key, func(ctx context.Context) (T, error) { return c.api.Patch(ctx, key, patch, opts, subresource...) })
}

// Apply is server-side apply of a configuration, to an object or a part of it when a
// subresource is named. A conflict with another field manager is an error that the
// controller reports; a retry does not resolve it.
func (c *Client[T, W, P, A, D]) Apply(ctx context.Context, key object.Key, config any, opts A, subresource ...string) (T, error) {
	return c.write(ctx, key, func(ctx context.Context) (T, error) { return c.api.Apply(ctx, key, config, opts, subresource...) })
}

// Delete deletes an object. The deletion counts as cached when the object is deleted from the
// cache or has a deletion timestamp, because finalizers may keep it for a long time.
func (c *Client[T, W, P, A, D]) Delete(ctx context.Context, key object.Key, opts D) error {
	begun := c.inf.Writes().Begin(key)
	var answer object.Deletion
	err := c.fenced(ctx, func(ctx context.Context) (err error) {
		answer, err = c.api.DeleteReturning(ctx, key, opts)
		return err
	})
	if err != nil {
		return err
	}
	begun.Deleting(answer)
	noteWrite(ctx, write{c, key})
	return nil
}

func (c *Client[T, W, P, A, D]) write(ctx context.Context, key object.Key, do func(ctx context.Context) (T, error)) (obj T, err error) {
	begun := c.inf.Writes().Begin(key)
	err = c.fenced(ctx, func(ctx context.Context) (err error) {
		obj, err = do(ctx)
		return err
	})
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// If the cache cannot have the newest version, that is the reason, and a retry does not help.
		if cause := c.inf.Unreadable(key); cause != nil {
			err = errors.Join(err, cause)
		}
	}
	if err != nil {
		return obj, err
	}
	switch err := begun.Wrote(obj); {
	case errors.Is(err, informer.ErrNoVersion):
		return obj, nil // nothing was stored, or the answer does not say what
	case err != nil:
		return obj, fmt.Errorf("%s: written, but not tracked: %w", c.inf.Name(), err)
	}
	key = keyOf(obj)
	noteWrite(ctx, write{c, key})
	if f := fencesOf(ctx); f != nil && c.inf.Covers(obj) { // no cache will have another object
		f.wrote(c.inf.Name(), key, object.Mark{Scope: c.scopeOf(key), Version: object.Version(obj.GetResourceVersion()), Shard: c.inf.Shard()})
	}
	return obj, nil
}

// scopeOf returns the part of the cache that a key belongs to.
func (c *Client[T, W, P, A, D]) scopeOf(key object.Key) object.Scope {
	for _, s := range c.inf.Sources() {
		if s.Scope != object.Everything && s.Scope.Covers(key) {
			return s.Scope
		}
	}
	return object.Everything
}

// fenced sends a request only while the fences of the context are open.
func (c *Client[T, W, P, A, D]) fenced(ctx context.Context, do func(ctx context.Context) error) error {
	f := fencesOf(ctx)
	if f == nil {
		return do(ctx)
	}
	var refused atomic.Pointer[error]
	check := func() error {
		err := f.check()
		if err != nil {
			refused.Store(&err)
		}
		return err
	}
	if err := check(); err != nil {
		return err
	}
	err := do(c.api.CheckAttempts(ctx, check))
	if cause := refused.Load(); err != nil && cause != nil {
		return &unsentError{err: err, fence: *cause}
	}
	return err
}

// unsentError reports that the fence prevented an attempt of a write. The error of the
// previous attempt is only in its text, so that the reconcile counts as fenced, not failed.
type unsentError struct{ err, fence error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.fence }

// noteWrite records a write in the reconcile of a context.
func noteWrite(ctx context.Context, w write) {
	if s, ok := ctx.Value(scopeKey{}).(reconciling); ok {
		s.wrote(w)
	}
}

func keyOf(obj metav1.Object) object.Key {
	return object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (c *Client[T, W, P, A, D]) name() string { return c.inf.Name() }

// holds implements cache.
func (c *Client[T, W, P, A, D]) holds(inf any) bool { return inf == any(c.inf) }

// pending implements cache.
func (c *Client[T, W, P, A, D]) pending(key object.Key) bool { return c.inf.Writes().Pending(key) }
