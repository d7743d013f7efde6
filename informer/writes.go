package informer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Writes tracks this process's writes, so that it can wait until the mirror has them or something
// later. It never modifies the mirror: reads return only what the server sent.
//
//	update := pods.Writes().Begin(key)
//	pod, err := client.Update(ctx, pod)
//	…
//	update.Wrote(pod)
//	…
//	pod, ok, err := pods.Writes().Get(ctx, key) // not older than the update
//
// A worker that does not want to block calls Check and retries later.
//
// One rule decides when a write counts as read: order is evidence, absence is not. A write is settled
// when the mirror holds the key at the version of the write or a later one, also that of a later
// object of the same name, or is complete up to such a version. The objects of one name are distinguished
// by UID and ordered by version, so responses may be recorded late and in any order. A deletion
// whose response has no version is settled when the mirror is complete up to a version that the server
// had after it, unless the mirror has seen the deletion. See [Writes.Wait] for what brings
// the evidence where nothing changes.
//
// Some written objects never come: they are outside the selection (namespace, labels, metadata.name and
// metadata.namespace) or the shard, in quarantine, or refused by the form. Reads of those do not wait.
// They return [ErrNotCovered] until the mirror has reached the version, or a [*QuarantinedError] as
// long as the mirror lacks the object. Other field selectors cannot be evaluated here: for an object
// that one of them excludes, reads wait until the mirror has reached the version.
//
// All methods may be called from any goroutine. A write is forgotten when it is settled. Writes to
// namespaces that are not mirrored are not recorded: a namespace that is added later is listed
// at the most recent version.
type Writes[T any] struct {
	inf *Informer[T]
	// used: a write was begun or recorded, so that removals are noted.
	used atomic.Bool

	mu       sync.Mutex // guards all below
	notes    map[object.Key][]*note
	size     int         // number of notes
	room     int         // number of notes above which sweep runs
	tidying  *time.Timer // until the next sweep, while there are notes
	count    uint64      // of the writes recorded, which numbers them
	removals removals
	proofs   map[object.Scope]*proofs
}

// note is what this process wrote to one object, from its creation to its deletion. A key has
// several if the object was deleted and created again and the order of the notes is not known.
type note struct {
	uid object.UID
	// version is the newest version of the object that this process wrote or knows of. Unless end
	// is bare or gone, it is that of the last write.
	version object.Version
	epoch   object.Epoch
	end     end
	outside bool           // the selection does not select it
	void    object.Version // if known: the server had this version after the write, and never that of the write
	labels  labels.Set     // as written, nil if they are not known
	number  uint64         // of the last write
	at      time.Time      // when it was recorded; earlier if a list is to prove it immediately
}

// awaited is the version that the mirror has to reach.
func (n *note) awaited() object.Version {
	if n.void.Known() {
		return n.void
	}
	return n.version
}

// enter makes the note one of a later epoch. The write may be of that or of the history before: either the
// mirror reaches its version, or a list shows that the server does not have it.
func (n *note) enter(epoch object.Epoch) { n.epoch, n.at = epoch, n.at.Add(-rewoundAfter) }

// end is how far the deletion of a written object has come. Each value implies the ones before
// it.
type end uint8

const (
	stays  end = iota
	marked     // it has a deletion time, or is deleted
	bare       // it has no finalizers left, or is deleted
	gone       // it is deleted
)

// Write is a write in progress; see [Writes.Begin].
type Write[T any] struct {
	w       *Writes[T]
	key     object.Key
	epoch   object.Epoch
	count   uint64         // of the writes recorded before
	uid     object.UID     // of the object that the mirror had
	version object.Version // of the same
}

// Begin is called before a write to a key, and a method of its result after it. The mirror may receive
// the event of a write before the writer receives the response. Without Begin, a write that removes
// the object from the mirror may be waited for longer than necessary. Pass the zero Key if the server
// generates the name.
func (w *Writes[T]) Begin(key object.Key) Write[T] {
	w.used.Store(true)
	w.mu.Lock()
	count := w.count
	w.mu.Unlock()
	b := Write[T]{w: w, key: key, epoch: w.inf.epochOf(key), count: count}
	if obj, ok := w.inf.Get(key); ok {
		b.uid, b.version = w.inf.acc.UIDOf(obj), w.inf.acc.VersionOf(obj)
	}
	return b
}

// Wrote records the write; see [Writes.Wrote].
func (b Write[T]) Wrote(obj T) error {
	epoch := b.epoch
	if b.key.IsZero() {
		epoch = b.w.epochFor(obj)
	}
	return b.w.wrote(obj, endOf(obj), epoch, b.count)
}

// Deleting records that the server accepted a deletion. If its answer has an object, reads wait until
// the mirror has that object with a deletion timestamp, since finalizers may delay the deletion, or no
// longer has it. Otherwise they wait until the object is deleted. If the answer has no UID, the
// deletion counts as that of the object that was last written or mirrored under the key.
func (b Write[T]) Deleting(d object.Deletion) {
	n := &note{uid: d.UID, version: d.Version, end: marked, epoch: b.epoch}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	before := b.count
	if n.uid == "" || !n.version.Known() {
		before = 0
	}
	if notes := b.w.notes[b.key]; n.uid == "" && len(notes) > 0 {
		last := notes[len(notes)-1]
		n.uid, n.version = last.uid, last.version
	} else if n.uid == "" {
		n.uid, n.version = b.uid, b.version
	} else if !n.version.Known() {
		n.end = gone
	}
	if n.end == gone && n.uid == b.uid {
		n.version = b.version
	}
	if n.uid != "" {
		b.w.put(b.key, n, before)
	}
}

// Wrote records a write. obj is what the server returned for a create, update, patch or apply, or
// for a deletion that finalizers delay. The error is [ErrNoVersion], or says that the object has
// no key.
func (w *Writes[T]) Wrote(obj T) error { return w.wrote(obj, endOf(obj), w.epochFor(obj), 0) }

// Deleted records a deletion. Reads wait until the object with this UID is deleted. obj is the
// object as it was read before the request. The errors are those of Wrote.
func (w *Writes[T]) Deleted(obj T) error { return w.wrote(obj, gone, w.epochFor(obj), 0) }

func (w *Writes[T]) epochFor(obj T) object.Epoch {
	key, _ := w.inf.acc.Key(obj)
	return w.inf.epochOf(key)
}

func (w *Writes[T]) wrote(obj T, e end, epoch object.Epoch, before uint64) error {
	key, err := w.inf.acc.Key(obj)
	if err != nil {
		return err
	}
	n := &note{uid: w.inf.acc.UIDOf(obj), version: w.inf.acc.VersionOf(obj), end: e, epoch: epoch}
	if n.uid == "" || !n.version.Known() {
		return ErrNoVersion
	}
	written := w.inf.acc.LabelsOf(obj)
	n.outside = w.inf.selects.outside(key, written)
	if w.inf.acc.Labels != nil {
		n.labels = maps.Clone(written)
		if n.labels == nil {
			n.labels = labels.Set{}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(key, n, before)
	return nil
}

// put adds a note to those of its key. The server answered it, with its version, after the writes up to a number had
// been recorded; 0 if that is not known. w.mu must be held.
func (w *Writes[T]) put(key object.Key, n *note, before uint64) {
	w.used.Store(true)
	if !w.inf.mirrors(w.inf.scopeOf(key)) {
		return
	}
	w.count++
	n.number, n.at = w.count, time.Now()
	var kept []*note
	for _, o := range w.notes[key] {
		if o.epoch < n.epoch {
			o.enter(n.epoch)
		} else if n.epoch < o.epoch {
			n.enter(o.epoch)
		}
		switch {
		case o.number <= before && o.awaited().After(n.version):
			// The history was rewound in between, and n is of what the server had later.
		case o.void.Known():
			kept = append(kept, o)
		case o.number > before && (o.outside && !n.outside && o.follows(n) || n.outside && !o.outside && n.follows(o)):
			// No read waits for the one that the versions say is later. If the history was rewound, it is not.
			kept = append(kept, o)
		case o.uid != n.uid && o.follows(n):
			o.number = n.number // what reads wait for already is later
			return
		case o.uid != n.uid && n.follows(o):
		case o.uid == n.uid:
			n.merge(o)
		default:
			kept = append(kept, o)
		}
	}
	if w.notes == nil {
		w.notes, w.room = map[object.Key][]*note{}, 64
	}
	w.set(key, append(kept, n))
	if w.size > w.room {
		w.sweep()
	}
	if w.tidying == nil {
		w.tidying = time.AfterFunc(tidyEvery, w.tidy)
	}
}

// follows reports whether the object of n certainly came after another one of the same name: that one
// existed at an earlier version than n's. Whatever settles n then settles the other.
func (n *note) follows(other *note) bool { return n.version.After(other.version) }

// merge adds an earlier note of the same object.
func (n *note) merge(o *note) {
	if !n.version.Known() || n.version.NotAfter(o.version) {
		n.version, n.outside, n.labels = o.version, o.outside, o.labels
	}
	n.end = max(n.end, o.end)
}

// set replaces the notes of a key. w.mu must be held.
func (w *Writes[T]) set(key object.Key, notes []*note) {
	w.size += len(notes) - len(w.notes[key])
	if len(notes) == 0 {
		delete(w.notes, key)
	} else {
		w.notes[key] = notes
	}
}

// tidyEvery is how often writes that no reader asks for are judged.
const tidyEvery = time.Minute

// tidy sweeps as long as there are notes and the informer runs.
func (w *Writes[T]) tidy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	if w.size > 0 && w.inf.isRunning() {
		w.tidying.Reset(tidyEvery)
	} else {
		w.tidying = nil
	}
}

// end stops the timer, which keeps the informer in memory.
func (w *Writes[T]) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tidying != nil {
		w.tidying.Stop()
	}
}

// sweep forgets writes that are settled, and has a list prove what has been outstanding for some time. w.mu
// must be held.
func (w *Writes[T]) sweep() {
	lacking := map[object.Scope]struct{}{}
	w.inf.View(func(snap store.Snapshot[T]) {
		for key, notes := range w.notes {
			scope := w.inf.scopeOf(key)
			rest, _, _ := w.judgeAll(snap, key, notes)
			for _, n := range rest {
				proven := w.proof(scope, n).Known()
				if n.end < bare { // it may be of a history that was rewound
					proven = snap.Mark(scope).Reached(object.Mark{Scope: scope, Epoch: n.epoch, Version: n.version})
				}
				if !proven && time.Since(n.at) >= tidyEvery/2 {
					lacking[scope] = struct{}{}
				}
			}
		}
	})
	w.room = max(64, 2*w.size)
	for scope := range lacking {
		w.prove(scope)
	}
}

// judgeAll judges notes of a key, forgets those that are settled, and returns the others with the worst
// standing. w.mu must be held.
func (w *Writes[T]) judgeAll(snap store.Snapshot[T], key object.Key, notes []*note) (rest []*note, worst standing, why error) {
	deleted := false // one of the objects
	var latest object.Version
	for _, n := range notes {
		is, err := w.judge(snap, key, n)
		if is > worst || is == worst && n.version.After(latest) {
			worst, why, latest = is, err, n.version
		}
		deleted = deleted || is == absent
		if is != settled {
			rest = append(rest, n)
		} else if now := w.notes[key]; slices.Contains(now, n) {
			w.set(key, slices.DeleteFunc(slices.Clone(now), func(o *note) bool { return o == n }))
		}
	}
	if deleted && worst == never {
		return rest, waiting, nil // the error is about a state before the deletion
	}
	return rest, worst, why
}

// Check reports whether the mirror is still older than the recorded writes of a key. A non-nil
// error says that the mirror will not have one of them, and why: it is a [*QuarantinedError], or a
// [*NotReachedError] that wraps [ErrNotCovered]. Like [Writes.Wait] it asks the server for evidence
// that does not come.
func (w *Writes[T]) Check(key object.Key) (pending bool, err error) {
	w.inf.View(func(snap store.Snapshot[T]) { pending, err = w.CheckIn(snap, key) })
	return pending, err
}

// CheckIn is [Writes.Check] of a snapshot.
func (w *Writes[T]) CheckIn(snap store.Snapshot[T], key object.Key) (pending bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.notes[key]) == 0 {
		return false, nil
	}
	rest, is, err := w.judgeAll(snap, key, w.notes[key])
	if is == waiting {
		w.ask(key, rest)
	}
	return is == waiting, err
}

// Pending is the first result of Check.
func (w *Writes[T]) Pending(key object.Key) bool {
	pending, _ := w.Check(key)
	return pending
}

// Settled reports whether nothing is outstanding of the recorded writes of a key. It is more than that
// Check reports nothing: a deletion of which the mirror has not seen the end yet is not settled, even
// while there is no object.
func (w *Writes[T]) Settled(key object.Key) (is bool) {
	w.inf.View(func(snap store.Snapshot[T]) {
		w.mu.Lock()
		defer w.mu.Unlock()
		rest, _, _ := w.judgeAll(snap, key, w.notes[key])
		is = len(rest) == 0
	})
	return is
}

// Wait blocks until the mirror has the writes of a key that were recorded before the call, or something
// later. The error is a [*NotReachedError], or one of Check.
//
// If no event brings the evidence, the informer asks the server for it after a quarter of a second: for a
// bookmark (see [reflector.Reflector.Confirm]), and for a version that includes a deletion, by a list
// of one object.
func (w *Writes[T]) Wait(ctx context.Context, key object.Key) error {
	_, _, err := w.Get(ctx, key)
	return err
}

// Peek returns the object with the given key if Check does not report that it is pending, without waiting.
// Its error is that of Get.
func (w *Writes[T]) Peek(key object.Key) (obj T, ok, pending bool, err error) {
	w.mu.Lock()
	notes := w.notes[key]
	if len(notes) == 0 {
		w.mu.Unlock()
		obj, ok, err = w.inf.peek(key)
		return obj, ok, false, err
	}
	is := settled
	w.inf.View(func(snap store.Snapshot[T]) {
		var rest []*note
		if rest, is, err = w.judgeAll(snap, key, notes); is == waiting {
			w.ask(key, rest)
		} else if err == nil {
			obj, ok, err = w.get(snap, key, is)
		}
	})
	w.mu.Unlock()
	return obj, ok, is == waiting, err
}

// Get returns the object with the given key, once the mirror has the writes for which Wait waits. Its error
// is that of Wait, or that of [Informer.Unreadable] if the mirror has no object.
func (w *Writes[T]) Get(ctx context.Context, key object.Key) (obj T, ok bool, err error) {
	w.mu.Lock()
	notes := slices.Clone(w.notes[key])
	w.mu.Unlock()
	if len(notes) == 0 {
		obj, ok, _, err = w.Peek(key)
		return obj, ok, err
	}
	first, is := notes[0], settled
	var why error
	err = w.inf.wait(ctx, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inf.View(func(snap store.Snapshot[T]) {
			if notes, is, why = w.judgeAll(snap, key, notes); is != waiting && why == nil {
				obj, ok, why = w.get(snap, key, is)
			}
		})
		return is != waiting
	}, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ask(key, notes)
	}, func(cause error) error { return w.inf.notReached(key, first.target(), cause) })
	if err == nil {
		err = why
	}
	if err != nil {
		var none T
		return none, false, err
	}
	return obj, ok, nil
}

// get returns an object of a snapshot, after the writes to it have been judged.
func (w *Writes[T]) get(snap store.Snapshot[T], key object.Key, is standing) (obj T, ok bool, err error) {
	if obj, ok = snap.Get(key); !ok && is == settled {
		err = w.inf.unreadableIn(snap, key)
	}
	return obj, ok, err
}

// Part is the part of a mirror that a read is for.
type Part struct {
	// Namespaces are its namespaces. Defaults to all that are mirrored.
	Namespaces []string
	// Labels selects its objects. Defaults to all.
	Labels labels.Selector
}

// covers reports whether objects of a namespace may belong to the part.
func (p Part) covers(namespace string) bool {
	return p.Namespaces == nil || slices.Contains(p.Namespaces, namespace)
}

// selects reports whether an object with these labels belongs to the part, if its namespace does.
func (p Part) selects(set labels.Set) bool { return p.Labels == nil || p.Labels.Matches(set) }

// Snapshot returns the current state once it has the writes that were recorded before the call, to
// objects in the namespaces of a part. The part defaults to everything. Its error is a [*NotReachedError],
// or that of [Writes.Missing].
func (w *Writes[T]) Snapshot(ctx context.Context, of ...Part) (store.Snapshot[T], error) {
	part := theOnly(of)
	w.mu.Lock()
	all := map[object.Key][]*note{}
	for key, notes := range w.notes {
		if part.covers(key.Namespace) {
			all[key] = slices.Clone(notes)
		}
	}
	w.mu.Unlock()
	var snap store.Snapshot[T]
	var missing error
	var late object.Key
	err := w.inf.wait(ctx, func() bool {
		snap, missing, late = w.inf.Snapshot(), nil, object.Key{}
		w.mu.Lock()
		defer w.mu.Unlock()
		for key := range all {
			rest, is, why := w.judgeAll(snap, key, all[key])
			if all[key] = rest; len(rest) == 0 {
				delete(all, key)
			}
			if is == waiting {
				late = key
			} else if missing == nil {
				missing = w.missing(snap, key, rest, part, why)
			}
		}
		if !late.IsZero() {
			snap.Release()
		}
		return late.IsZero()
	}, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for key, notes := range all {
			w.ask(key, notes)
		}
	}, func(cause error) error { return w.inf.notReached(late, all[late][0].target(), cause) })
	if err == nil && missing != nil {
		snap.Release()
		err = missing
	}
	if err != nil {
		return store.Snapshot[T]{}, err
	}
	return snap, nil
}

// Missing returns a [*QuarantinedError] if this process wrote an object that the mirror cannot have and that
// may belong to a part: it is in one of the namespaces, and its labels match as they were written, or as
// the snapshot has them. The part defaults to everything. Missing does not wait.
func (w *Writes[T]) Missing(snap store.Snapshot[T], of ...Part) error {
	part := theOnly(of)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.notes) == 0 || snap.Unreadables() == 0 {
		return nil
	}
	for key, notes := range w.notes {
		if !part.covers(key.Namespace) {
			continue
		}
		rest, _, why := w.judgeAll(snap, key, notes)
		if err := w.missing(snap, key, rest, part, why); err != nil {
			return err
		}
	}
	return nil
}

// missing returns why if it is a *QuarantinedError and the object may belong to a part. w.mu must be
// held.
func (w *Writes[T]) missing(snap store.Snapshot[T], key object.Key, notes []*note, of Part, why error) error {
	if q := (*QuarantinedError)(nil); !errors.As(why, &q) {
		return nil
	}
	if slices.ContainsFunc(notes, func(n *note) bool { return !n.outside && (n.labels == nil || of.selects(n.labels)) }) {
		return why
	}
	if obj, ok := snap.Get(key); ok && of.selects(w.inf.acc.LabelsOf(obj)) {
		return why
	}
	return nil
}

// theOnly returns the part of a call, or everything.
func theOnly(parts []Part) (only Part) {
	if len(parts) > 0 {
		only = parts[len(parts)-1]
	}
	return only
}
