package informer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// A worker that does not want to wait asks Check and comes back later.
//
// What is waited for depends on the answer that was noted:
//
//   - An object of the selection: that version of it, or a later one.
//   - An object that is being deleted and has no finalizers left. The server then deletes
//     it in the same request, and its answer carries the version from before the write. So
//     the wait is for the object of this UID to be deleted, or to have no finalizers.
//   - An object outside the selection (namespace, labels, metadata.name and
//     metadata.namespace; other field selectors cannot be evaluated here, and what they
//     leave out is waited for until the cache reaches the version). If the cache shows it,
//     the wait is for it to be removed. If not, nothing will ever come: nothing is waited
//     for, and reads return [ErrNotCovered] until the cache has reached the version.
//
// A written object that is in quarantine is not waited for either: reads return a
// [*QuarantinedError] instead of an older object.
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
	version object.Version // not known of a deletion whose answer had none
	epoch   object.Epoch
	end     end
	outside bool // the selection does not cover it
	// shown tells that the cache has shown the UID since just before the write, so that
	// its absence from then on is a later state.
	shown bool
	at    time.Time
}

// is reports whether two notes are of the same write.
func (n note) is(other note) bool {
	return n.uid == other.uid && n.version == other.version && n.epoch == other.epoch && n.end == other.end
}

// end is what becomes of a written object. Each also satisfies the ones before it.
type end uint8

const (
	stays  end = iota
	marked     // it has a deletion time, or is deleted
	bare       // it has no finalizers any more, or is deleted
	gone       // it is deleted
)

// endOf returns what the server's answer to a write says about the object's end.
func endOf(obj any) end {
	if m, ok := obj.(metav1.Object); ok && m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return bare
	}
	return stays
}

// shows reports whether an object is as far as the end says.
func (e end) shows(obj any) bool {
	m, ok := obj.(metav1.Object)
	return e == stays || ok && m.GetDeletionTimestamp() != nil && (e == marked || e == bare && len(m.GetFinalizers()) == 0)
}

// Write is a write that is about to be made; see [Writes.Begin].
type Write[T any] struct {
	w      *Writes[T]
	key    object.Key
	before object.UID
}

// Begin looks at the cache before a write to a key. A write that takes an object out of
// the cache can be shown before its answer is here; noted by the Write, such a one is not
// waited for. The zero Key is for an object that the server names.
func (w *Writes[T]) Begin(key object.Key) Write[T] {
	b := Write[T]{w: w, key: key}
	if obj, ok := w.inf.Get(key); ok {
		b.before = w.inf.acc.UIDOf(obj)
	}
	return b
}

// Wrote is [Writes.Wrote].
func (b Write[T]) Wrote(obj T) error { return b.w.wrote(obj, endOf(obj), b.before) }

// Deleting notes that the server accepted a deletion of the key's object, of which it
// returned the UID; "" if it did not, for the object that was last written or shown. Reads
// wait until that is deleted or has a deletion time: finalizers may keep it for long.
func (b Write[T]) Deleting(uid object.UID) {
	n := note{uid: uid, end: marked, epoch: b.w.inf.epochOf(b.key), at: time.Now()}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if old, ok := b.w.notes[b.key]; n.uid == "" && ok {
		n.uid = old.uid
	} else if n.uid == "" {
		n.uid = b.before
	}
	if n.uid != "" {
		n.shown = n.uid == b.before
		b.w.put(b.key, n)
	}
}

// Wrote notes a write: obj is what the server returned for a creation, an update, a patch
// or an apply, or for a deletion that only marked the object, because it has finalizers.
// The error is [ErrNoVersion], or says that the object has no key.
func (w *Writes[T]) Wrote(obj T) error { return w.wrote(obj, endOf(obj), "") }

// Deleted notes a deletion: obj is the object as it was last known. Reads wait until the
// object of this UID is gone. Its errors are those of Wrote.
func (w *Writes[T]) Deleted(obj T) error { return w.wrote(obj, gone, "") }

func (w *Writes[T]) wrote(obj T, e end, before object.UID) error {
	key, err := w.inf.acc.Key(obj)
	if err != nil {
		return err
	}
	n := note{
		uid: w.inf.acc.UIDOf(obj), version: w.inf.acc.VersionOf(obj), end: e, epoch: w.inf.epochOf(key),
		outside: w.inf.selects.outside(key, w.inf.acc.LabelsOf(obj)), at: time.Now(),
	}
	if n.uid == "" || !n.version.Known() {
		return ErrNoVersion
	}
	n.shown = n.uid == before
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(key, n)
	return nil
}

// put makes a note the key's, together with what an earlier one says. The lock must be
// held.
func (w *Writes[T]) put(key object.Key, n note) {
	if old, ok := w.notes[key]; ok && old.epoch == n.epoch {
		same := old.uid == n.uid
		switch {
		case same && (!n.version.Known() || n.version.NotAfter(old.version)):
			n.version, n.outside = old.version, old.outside
		case !same && n.version.Known() && n.version.NotAfter(old.version), !same && !n.version.Known() && n.shown:
			return // of an object before that one
		}
		if same {
			n.end, n.shown = max(n.end, old.end), n.shown || old.shown
		}
	}
	if w.notes == nil {
		w.notes, w.room = map[object.Key]note{}, 64
	}
	w.notes[key] = n
	if len(w.notes) > w.room {
		w.sweep()
	}
}

// unseenFor is how long a deletion is remembered of an object that the cache has never
// shown. It may be about to.
const unseenFor = time.Minute

// sweep forgets what the mirror has shown.
func (w *Writes[T]) sweep() {
	snap := w.inf.store.Pin()
	defer snap.Release()
	for key, n := range w.notes {
		if s, _ := w.judge(snap, key, &n); s == shown || s == unasked && time.Since(n.at) > unseenFor {
			delete(w.notes, key)
		}
	}
	w.room = max(64, 2*len(w.notes))
}

// standing is how the cache stands to a write.
type standing uint8

const (
	shown   standing = iota // it shows the write, or something later
	waiting                 // it will
	unasked                 // it shows no older state, but may still come to
	never                   // it will not, and there is an error that says why
)

// judge returns how a snapshot stands to a write.
func (w *Writes[T]) judge(snap store.Snapshot[T], key object.Key, n *note) (standing, error) {
	inf, scope := w.inf, w.inf.scopeOf(key)
	if !inf.covers(scope) {
		return never, inf.notReached(key, n.version, ErrNotCovered)
	}
	mark := snap.Mark(scope)
	reached := mark.Reached(object.Mark{Scope: scope, Epoch: n.epoch, Version: n.version})
	obj, ok := snap.Get(key)
	if ok && inf.acc.UIDOf(obj) == n.uid {
		n.shown = true
		at := inf.acc.VersionOf(obj)
		_, ordered := n.version.Compare(at)
		current := !n.version.Known() || n.version.NotAfter(at) || reached && !ordered || mark.Epoch > n.epoch
		switch {
		case current && n.end.shows(obj):
			return shown, nil
		case !current && reached && n.end == stays && !n.outside:
			if cause := inf.unreadable(scope, key, n.uid, true); cause != nil {
				return never, &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: n.version, Cause: cause}
			}
		}
		return waiting, nil
	}
	switch {
	case n.end == stays && !n.outside && reached:
		if cause := inf.unreadable(scope, key, n.uid, false); cause != nil {
			return never, &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: n.version, Cause: cause}
		}
		return shown, nil
	case n.version.Known() && reached, (n.end != stays || n.outside) && n.shown, ok && n.end != stays:
		return shown, nil
	case n.outside:
		return never, inf.notReached(key, n.version, ErrNotCovered)
	case !n.version.Known():
		return unasked, nil
	}
	return waiting, nil
}

// Check reports whether the mirror is older than what was written to a key, and comes to
// show it. The error says that it will not, and why: it is a [*QuarantinedError], or a
// [*NotReachedError] that wraps [ErrNotCovered].
func (w *Writes[T]) Check(key object.Key) (pending bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.notes[key]
	if !ok {
		return false, nil
	}
	snap := w.inf.store.Pin()
	defer snap.Release()
	s, err := w.judge(snap, key, &n)
	if s == shown {
		delete(w.notes, key)
	} else {
		w.notes[key] = n
	}
	return s == waiting, err
}

// Pending is the first result of Check.
func (w *Writes[T]) Pending(key object.Key) bool {
	pending, _ := w.Check(key)
	return pending
}

// Wait waits until the mirror shows what was written to a key so far, or something
// later. The error is a [*NotReachedError] or, as with Check, says that it never will.
func (w *Writes[T]) Wait(ctx context.Context, key object.Key) error {
	w.mu.Lock()
	n, ok := w.notes[key]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	var s standing
	var why error
	err := w.inf.wait(ctx, func() bool {
		snap := w.inf.store.Pin()
		defer snap.Release()
		s, why = w.judge(snap, key, &n)
		return s != waiting
	}, func(cause error) error { return w.inf.notReached(key, n.version, cause) })
	if err != nil || s != shown {
		return errors.Join(err, why)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes[key].is(n) {
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

// Snapshot returns the current state once it has everything that this process wrote so far,
// except writes outside of the selection. Its error is that of Wait.
func (w *Writes[T]) Snapshot(ctx context.Context) (store.Snapshot[T], error) {
	for _, key := range w.keys() {
		if err := w.Wait(ctx, key); err != nil && !errors.Is(err, ErrNotCovered) {
			return store.Snapshot[T]{}, err
		}
	}
	return w.inf.Snapshot(), nil
}

func (w *Writes[T]) keys() []object.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.notes))
}
