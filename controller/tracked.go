package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/attempt"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Tracked are the objects of an informer that this process also writes. It tracks each write until the cache
// has it: the key whose reconcile made the write is not reconciled before, and [Tracked.Get] returns
// [ErrStaleCache]. See [informer.Writes] for the details. Before each attempt of a write, retries included, it
// checks the fences of the context. Its methods are safe for concurrent use; pass them the context of the
// reconcile. [tarn.Client] is a client with all verbs on top of it.
//
// Do not track dry runs, which no cache will ever have.
//
// [tarn.Client]: https://pkg.go.dev/github.com/tarnproject/tarn#Client
type Tracked[T metav1.Object] struct{ inf *informer.Informer[T] }

// Track returns what tracks the writes to the objects of an informer.
func Track[T metav1.Object](inf *informer.Informer[T]) *Tracked[T] { return &Tracked[T]{inf} }

// Get returns the object with the given key from the cache. The error wraps [ErrStaleCache]
// if the cache is older than this process's last write to the key; return it from the
// reconcile. If the cache will never have that write, the error is the reason: it wraps
// [informer.ErrNotCovered] for an object outside the informer's selection, and is an
// [*informer.QuarantinedError] for one that the informer could not read or store. It is
// that too if the cache has no object because it could not read or store that of another writer.
func (c *Tracked[T]) Get(key object.Key) (obj T, ok bool, err error) {
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
func (c *Tracked[T]) Snapshot(ctx context.Context, of ...informer.Part) (store.Snapshot[T], error) {
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

// Write sends a create, update, patch or apply of the object with the given key, which is zero if the server
// generates the name. send returns the server's answer; it must use its context for the request, and may be
// a verb of a wire.API. An update that removes the last finalizer of an object in deletion counts as cached when
// the object is deleted from the cache. A conflict of an apply with another field manager is an error
// that the controller reports; a retry does not resolve it.
func (c *Tracked[T]) Write(ctx context.Context, key object.Key, send func(ctx context.Context) (T, error)) (obj T, err error) {
	begun := c.inf.Writes().Begin(key)
	err = whileOpen(ctx, func(ctx context.Context) (err error) {
		obj, err = send(ctx)
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

// Delete sends a deletion, as Write does. The deletion counts as cached when the object is deleted from the
// cache or has a deletion timestamp, because finalizers may keep it for a long time.
func (c *Tracked[T]) Delete(ctx context.Context, key object.Key, send func(ctx context.Context) (object.Deletion, error)) error {
	begun := c.inf.Writes().Begin(key)
	var answer object.Deletion
	err := whileOpen(ctx, func(ctx context.Context) (err error) {
		answer, err = send(ctx)
		return err
	})
	if err != nil {
		return err
	}
	begun.Deleting(answer)
	noteWrite(ctx, write{c, key})
	return nil
}

// scopeOf returns the part of the cache that a key belongs to.
func (c *Tracked[T]) scopeOf(key object.Key) object.Scope {
	for _, s := range c.inf.Sources() {
		if s.Scope != object.Everything && s.Scope.Covers(key) {
			return s.Scope
		}
	}
	return object.Everything
}

// whileOpen sends a request only while the fences of the context are open.
func whileOpen(ctx context.Context, do func(ctx context.Context) error) error {
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
	err := do(attempt.WithCheck(ctx, check))
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

func (c *Tracked[T]) name() string { return c.inf.Name() }

// holds implements cache.
func (c *Tracked[T]) holds(inf any) bool { return inf == any(c.inf) }

// pending implements cache.
func (c *Tracked[T]) pending(key object.Key) bool { return c.inf.Writes().Pending(key) }

// settled implements cache.
func (c *Tracked[T]) settled(key object.Key) bool { return c.inf.Writes().Settled(key) }
