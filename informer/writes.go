package informer

import (
	"context"
	"sync"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Writes remembers what this process wrote, so that it can wait until the mirror shows it
// or something later. It writes nothing into the mirror: what is read is always what
// the server said.
//
//	pod, err := client.Update(ctx, pod)
//	…
//	pods.Writes().Wrote(pod)
//	…
//	pod, ok, err := pods.Writes().Get(ctx, key) // not older than what was written
//
// A worker that does not want to wait asks Pending and comes back later.
//
// All methods may be called from any goroutine. A write is forgotten when the mirror has
// shown it.
type Writes[T any] struct {
	inf *Informer[T]

	mu    sync.Mutex // guards all below
	notes map[object.Key]note
	room  int // notes before those that have been seen are swept out
}

// note is the last write of a key.
type note struct {
	uid     object.UID
	version object.Version
	deleted bool
	epoch   object.Epoch
}

// Wrote notes a write: obj is what the server returned for a creation, an update or a
// patch, or for a deletion that only marked the object, because it has finalizers. The
// error is [ErrNoVersion], or says that the object has no key.
func (w *Writes[T]) Wrote(obj T) error { return w.note(obj, false) }

// Deleted notes a deletion: obj is the object as it was last known. Reads wait until the
// object of this UID is gone. Its errors are those of Wrote.
func (w *Writes[T]) Deleted(obj T) error { return w.note(obj, true) }

func (w *Writes[T]) note(obj T, deleted bool) error {
	key, err := w.inf.acc.Key(obj)
	if err != nil {
		return err
	}
	n := note{uid: w.inf.acc.UIDOf(obj), version: w.inf.acc.VersionOf(obj), deleted: deleted, epoch: w.inf.epochOf(key)}
	if n.uid == "" || !n.version.Known() {
		return ErrNoVersion
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, ok := w.notes[key]
	if ok && old.epoch == n.epoch {
		if old.uid == n.uid {
			n.deleted = n.deleted || old.deleted
		}
		if n.version.NotAfter(old.version) {
			if old.uid != n.uid {
				return nil // of a life before
			}
			n.version = old.version
		}
	}
	if w.notes == nil {
		w.notes, w.room = map[object.Key]note{}, 64
	}
	w.notes[key] = n
	if len(w.notes) > w.room {
		w.sweep()
	}
	return nil
}

// sweep forgets what the mirror has shown.
func (w *Writes[T]) sweep() {
	snap := w.inf.store.Pin()
	defer snap.Release()
	for key, n := range w.notes {
		if w.seen(snap, key, n) {
			delete(w.notes, key)
		}
	}
	w.room = max(64, 2*len(w.notes))
}

// seen reports whether a snapshot shows a write, or something later.
func (w *Writes[T]) seen(snap store.Snapshot[T], key object.Key, n note) bool {
	scope := w.inf.scopeOf(key)
	reached := snap.Mark(scope).Reached(object.Mark{Scope: scope, Epoch: n.epoch, Version: n.version})
	return w.shows(snap, key, n, reached)
}

// shows is seen, with what is known of the scope.
func (w *Writes[T]) shows(snap store.Snapshot[T], key object.Key, n note, reached bool) bool {
	obj, ok := snap.Get(key)
	same := ok && w.inf.acc.UIDOf(obj) == n.uid
	if n.deleted {
		return reached && !same
	}
	return reached || same && n.version.NotAfter(w.inf.acc.VersionOf(obj))
}

// Pending reports whether the mirror does not show yet what was written to a key.
func (w *Writes[T]) Pending(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.notes[key]
	if !ok {
		return false
	}
	snap := w.inf.store.Pin()
	defer snap.Release()
	if w.seen(snap, key, n) {
		delete(w.notes, key)
		return false
	}
	return true
}

// Wait waits until the mirror shows what was written to a key so far, or something
// later. The error is a [*NotReachedError].
func (w *Writes[T]) Wait(ctx context.Context, key object.Key) error {
	w.mu.Lock()
	n, ok := w.notes[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.inf.waitForKey(ctx, key, n.version, n.epoch, func(snap store.Snapshot[T], reached bool) bool {
		return w.shows(snap, key, n, reached)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes[key] == n {
		delete(w.notes, key)
	}
	return nil
}

// Get returns the object of a key once the mirror shows what was written to it. Its error
// is that of Wait.
func (w *Writes[T]) Get(ctx context.Context, key object.Key) (obj T, ok bool, err error) {
	if err := w.Wait(ctx, key); err != nil {
		return obj, false, err
	}
	obj, ok = w.inf.Get(key)
	return obj, ok, nil
}

// Snapshot returns the mirror once it shows everything that was written so far. Its
// error is that of Wait.
func (w *Writes[T]) Snapshot(ctx context.Context) (store.Snapshot[T], error) {
	w.mu.Lock()
	keys := make([]object.Key, 0, len(w.notes))
	for key := range w.notes {
		keys = append(keys, key)
	}
	w.mu.Unlock()
	for _, key := range keys {
		if err := w.Wait(ctx, key); err != nil {
			return store.Snapshot[T]{}, err
		}
	}
	return w.inf.Snapshot(), nil
}
