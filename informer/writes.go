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

// Writes tracks this process's writes, so that it can wait until the mirror has them or something
// later. It never modifies the mirror: reads return only what the server sent.
//
//	pod, err := client.Update(ctx, pod)
//	…
//	pods.Writes().Wrote(pod)
//	…
//	pod, ok, err := pods.Writes().Get(ctx, key) // not older than the update
//
// A worker that does not want to block calls Check and retries later.
//
// What reads wait for depends on the server's response that was recorded:
//
//   - An object of the selection: that version of it, or a later one.
//   - An object that is being deleted and has no finalizers left. The server deletes it in the
//     same request, and its response has the version from before the write. Reads wait until the
//     object with this UID is deleted or has no finalizers.
//   - An object outside the selection (namespace, labels, metadata.name and metadata.namespace) or
//     the shard.
//     If the mirror has it, reads wait until it is removed. If not, no event will come: reads do
//     not wait, and return [ErrNotCovered] until the mirror reaches the version. Other field
//     selectors cannot be evaluated here, so for an object that one of them excludes, reads wait
//     until the mirror reaches the version.
//
// Reads do not wait for a written object that is in quarantine: they return a [*QuarantinedError]
// instead of an older object.
//
// All methods may be called from any goroutine. A write is forgotten when the mirror has it.
type Writes[T any] struct {
	inf *Informer[T]

	mu    sync.Mutex // guards all below
	notes map[object.Key]note
	room  int // number of notes above which sweep runs
}

// note is the latest write of a key.
type note struct {
	uid     object.UID
	version object.Version // unknown for a deletion whose response had none
	epoch   object.Epoch
	end     end
	outside bool // the selection does not select it
	// shown: the mirror had the object with this UID just before the write or later, so if it is
	// absent now, it was deleted since.
	shown bool
	at    time.Time
}

// is reports whether two notes record the same write.
func (n note) is(other note) bool {
	return n.uid == other.uid && n.version == other.version && n.epoch == other.epoch && n.end == other.end
}

// end is how far the deletion of a written object has come. Each value implies the ones before
// it.
type end uint8

const (
	stays  end = iota
	marked     // it has a deletion time, or is deleted
	bare       // it has no finalizers left, or is deleted
	gone       // it is deleted
)

// endOf returns what the server's response to a write implies about the object's deletion.
func endOf(obj any) end {
	if m, ok := obj.(metav1.Object); ok && m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return bare
	}
	return stays
}

// shows reports whether the deletion of an object has come as far as e.
func (e end) shows(obj any) bool {
	m, ok := obj.(metav1.Object)
	return e == stays || ok && m.GetDeletionTimestamp() != nil && (e == marked || e == bare && len(m.GetFinalizers()) == 0)
}

// Write is a write in progress; see [Writes.Begin].
type Write[T any] struct {
	w      *Writes[T]
	key    object.Key
	before object.UID
}

// Begin is called before a write to a key, and its result after it. The mirror may receive the
// event of a write before the writer receives the response. Without Begin, a write that removes
// the object from the mirror would then be waited for in vain. Pass the zero Key if the server
// generates the name.
func (w *Writes[T]) Begin(key object.Key) Write[T] {
	b := Write[T]{w: w, key: key}
	b.before, _ = w.inf.store.UIDOf(key)
	return b
}

// Wrote records the write; see [Writes.Wrote].
func (b Write[T]) Wrote(obj T) error { return b.w.wrote(obj, endOf(obj), b.before) }

// Deleting records that the server accepted the deletion of the object with the given UID. Reads
// wait until it is deleted or has a deletion timestamp, since finalizers may delay the deletion.
// If the server returned no UID, pass "" for the object that was last written or mirrored under
// the key.
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

// Wrote records a write. obj is what the server returned for a create, update, patch or apply, or
// for a deletion that finalizers delay. The error is [ErrNoVersion], or says that the object has
// no key.
func (w *Writes[T]) Wrote(obj T) error { return w.wrote(obj, endOf(obj), "") }

// Deleted records a deletion. Reads wait until the object with this UID is deleted. obj is the
// object as it was read before the request. Do not pass the server's response: a quiet mirror
// reaches the version of a deletion only with the next bookmark. The errors are those of Wrote.
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

// put records a note for a key, merged with the previous note of that key. w.mu must be held.
func (w *Writes[T]) put(key object.Key, n note) {
	if old, ok := w.notes[key]; ok && old.epoch == n.epoch {
		same := old.uid == n.uid
		switch {
		case same && (!n.version.Known() || n.version.NotAfter(old.version)):
			n.version, n.outside = old.version, old.outside
		case !same && n.version.Known() && n.version.NotAfter(old.version), !same && !n.version.Known() && n.shown:
			return // the write was to a previous object of that name
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

// unseenFor is how long a deletion is tracked if the mirror never had the object. The event of
// its creation may still come.
const unseenFor = time.Minute

// sweep forgets writes that the mirror has.
func (w *Writes[T]) sweep() {
	w.inf.View(func(snap store.Snapshot[T]) {
		for key, n := range w.notes {
			if s, _ := w.judge(snap, key, &n); s == shown || s == unasked && time.Since(n.at) > unseenFor {
				delete(w.notes, key)
			}
		}
	})
	w.room = max(64, 2*len(w.notes))
}

// standing is the relation of the mirror to a write.
type standing uint8

const (
	shown   standing = iota // it has the write, or something later
	waiting                 // it will have it
	unasked                 // it has no older state of the object, but may still receive one
	never                   // it will not have it; an error says why
)

// judge returns the relation of a snapshot to a write.
func (w *Writes[T]) judge(snap store.Snapshot[T], key object.Key, n *note) (standing, error) {
	inf, scope := w.inf, w.inf.scopeOf(key)
	if !inf.covers(scope) {
		return never, inf.notReached(key, n.version, ErrNotCovered)
	}
	mark, outside := snap.Mark(scope), n.outside || inf.outsideShard(key, n.uid)
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
		case !current && reached && n.end == stays && !outside:
			if cause := inf.unreadable(scope, key, n.uid, true); cause != nil {
				return never, &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: n.version, Cause: cause}
			}
		}
		return waiting, nil
	}
	switch {
	case n.end == stays && !outside && reached:
		if cause := inf.unreadable(scope, key, n.uid, false); cause != nil {
			return never, &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: n.version, Cause: cause}
		}
		return shown, nil
	case n.version.Known() && reached, (n.end != stays || outside) && n.shown, ok && n.end != stays:
		return shown, nil
	case outside:
		return never, inf.notReached(key, n.version, ErrNotCovered)
	case !n.version.Known():
		return unasked, nil
	}
	return waiting, nil
}

// Check reports whether the mirror is still older than the recorded write of a key. A non-nil
// error says that the mirror will not have the write, and why: it is a [*QuarantinedError], or a
// [*NotReachedError] that wraps [ErrNotCovered].
func (w *Writes[T]) Check(key object.Key) (pending bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.notes[key]
	if !ok {
		return false, nil
	}
	var s standing
	w.inf.View(func(snap store.Snapshot[T]) { s, err = w.judge(snap, key, &n) })
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

// Wait blocks until the mirror has the recorded writes of a key, or something later. The error is
// a [*NotReachedError], or one of Check.
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
		w.inf.View(func(snap store.Snapshot[T]) { s, why = w.judge(snap, key, &n) })
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

// Get returns the object with the given key, once the mirror has the recorded writes of that key.
// Its error is that of Wait.
func (w *Writes[T]) Get(ctx context.Context, key object.Key) (obj T, ok bool, err error) {
	if err := w.Wait(ctx, key); err != nil {
		return obj, false, err
	}
	obj, ok = w.inf.Get(key)
	return obj, ok, nil
}

// Snapshot returns the current state once it has all recorded writes, except writes outside the
// selection. Its error is that of Wait.
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
