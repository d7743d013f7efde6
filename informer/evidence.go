package informer

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// standing is the relation of the mirror to a write, the worst one last.
type standing uint8

const (
	settled standing = iota // it has the write, or something later
	absent                  // it has no object, as the server after the deletion; an older state may still come
	never                   // it will not have the write; an error says why
	waiting                 // it may be older than the write
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

// target returns the version of the write, if the note has it. That of a removal of the last finalizer
// has the version before the deletion.
func (n *note) target() object.Version {
	if n.end == gone {
		return ""
	}
	return n.version
}

// judge returns the relation of a snapshot to a write. It decides by the order of versions: what the
// mirror does not hold says nothing by itself. w.mu must be held.
func (w *Writes[T]) judge(snap store.Snapshot[T], key object.Key, n *note) (standing, error) {
	inf, scope := w.inf, w.inf.scopeOf(key)
	if !inf.mirrors(scope) {
		return settled, nil // it has been removed, and is listed at a later version if it is added again
	}
	if !inf.covers(scope) {
		return never, inf.notReached(key, n.target(), ErrNotCovered)
	}
	mark := snap.Mark(scope)
	if mark.Epoch > n.epoch {
		n.enter(mark.Epoch)
	}
	w.rewound(scope, n)
	reached := func(v object.Version) bool {
		return v.Known() && mark.Reached(object.Mark{Scope: scope, Epoch: n.epoch, Version: v})
	}
	switch {
	case n.void.Known() && reached(n.void):
		return settled, nil
	case n.void.Known(), mark.Epoch < n.epoch:
		return waiting, nil
	}
	// exists: the mirror has everything up to the last version at which the object is known to have
	// existed. passed: it has everything up to the write.
	exists := reached(n.version)
	passed := n.end < bare && exists || n.end >= bare && reached(w.proof(scope, n))
	lacking := func(cause error) (standing, error) {
		return never, &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: n.version, Cause: cause}
	}
	obj, ok := snap.Get(key)
	at := object.Version("")
	if ok {
		at = inf.acc.VersionOf(obj)
	}
	outside := n.outside || inf.outsideShard(key, n.uid)
	removed := !ok && n.end != gone && w.removals.after(key, n)
	is, bad := snap.Unreadable(key)
	bad = bad && (is.UID == n.uid || is.UID == "")
	if !bad && passed && n.end < bare && (ok || !outside && !removed) {
		is, bad = snap.Unreadable(object.Key{Namespace: string(scope)}) // it may be one whose key cannot be read
	}
	switch {
	case ok && inf.acc.UIDOf(obj) == n.uid:
		_, ordered := n.version.Compare(at)
		current := !n.version.Known() || n.version.NotAfter(at) || exists && !ordered
		if bad && at.After(is.Version) {
			current = false // it is of an earlier epoch
		}
		if n.end == gone && !at.NotAfter(n.version) {
			n.version = at
		}
		switch {
		case current && n.end.shows(obj):
			return settled, nil
		case passed && bad:
			return lacking(is.Cause)
		case passed:
			return settled, nil // the server does not have the write any more: a backup was restored
		}
		return waiting, nil
	case ok && at.After(n.version):
		return settled, nil // a later object of the same name
	case passed && bad:
		return lacking(is.Cause)
	case passed:
		return settled, nil
	case ok:
		return waiting, nil // an earlier object of the same name
	case removed, n.end >= bare && exists && (n.end == bare || !inf.selective.Load()) && !bad:
		return settled, nil // it existed and does not any more
	case n.end >= bare && (exists || outside || !n.version.Known()):
		return absent, nil
	case outside:
		return never, inf.notReached(key, n.version, ErrNotCovered)
	}
	return waiting, nil
}

// removals are the latest objects that the mirror removed, for writes whose event arrives before their
// response. What is not among them takes a bookmark to prove.
type removals struct {
	at   map[life]removal
	ring []life
	next int
}

// removal is the version at which an object was removed, and its epoch.
type removal struct {
	epoch   object.Epoch
	version object.Version
}

// life is an object from its creation to its deletion.
type life struct {
	key object.Key
	uid object.UID
}

// maxRemovals is how many removals are remembered.
const maxRemovals = 1024

// add records that the mirror removed an object.
func (r *removals) add(l life, at removal) {
	if r.at == nil {
		r.at = map[life]removal{}
	}
	if _, again := r.at[l]; !again {
		if len(r.ring) < maxRemovals {
			r.ring = append(r.ring, l)
		} else {
			delete(r.at, r.ring[r.next])
			r.ring[r.next] = l
			r.next = (r.next + 1) % maxRemovals
		}
	}
	r.at[l] = at
}

// after reports whether the mirror removed the object of a note at its version or a later one.
func (r *removals) after(key object.Key, n *note) bool {
	at, ok := r.at[life{key, n.uid}]
	return ok && at.epoch == n.epoch && n.version.NotAfter(at.version)
}

// observe notes what a batch removed from the mirror. A batch with a list may begin an epoch: which of its
// removals belong to that does not show.
func (w *Writes[T]) observe(b *object.Batch[T], changes []object.Change[T]) {
	if !w.used.Load() || slices.ContainsFunc(b.Changes, func(c object.Change[T]) bool { return c.List != nil }) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range changes {
		if c := &changes[i]; c.Kind == object.Deleted && !c.Unknown && c.Version.Ordered() {
			w.removals.add(life{c.Key, c.UID}, removal{w.inf.epochOf(c.Key), c.Version})
		}
	}
}

const (
	// askAfter is how long a reader waits before it asks the server for evidence, and how often it
	// asks again. What it asks bounds how often that leads to a request.
	askAfter = 250 * time.Millisecond
	// A list for a proof is repeated after listAgain, and after failures with doubling delays up to
	// listMost.
	listAgain = time.Second
	listMost  = time.Minute
	// rewoundAfter is how long a version that a write had may be outstanding before a list checks that
	// the server still has it.
	rewoundAfter = 10 * time.Second
)

// ask asks for the evidence that the notes of a key lack. w.mu must be held.
func (w *Writes[T]) ask(key object.Key, notes []*note) {
	scope := w.inf.scopeOf(key)
	for _, n := range notes {
		if time.Since(n.at) < askAfter {
			continue
		}
		version := n.version
		switch {
		case n.void.Known():
			version = n.void
		case n.end >= bare:
			version = w.proof(scope, n)
		}
		if version.Known() {
			w.inf.confirm(scope, version)
		}
		if !version.Known() || time.Since(n.at) >= rewoundAfter {
			w.prove(scope)
		}
	}
}

// proofs are versions that the server had after certain writes to a scope.
type proofs struct {
	of      []proof // the earliest writes first
	listing bool
	next    time.Time // of the next list
	delay   time.Duration
}

// proof says that the server had a version when the writes up to a number had been recorded.
type proof struct {
	upTo    uint64
	epoch   object.Epoch
	version object.Version
}

// maxProofs is how many proofs of a scope are kept: more than are made while one bookmark is waited for.
const maxProofs = 16

// proof returns a version that the server had after a write, if one is known. w.mu must be held.
func (w *Writes[T]) proof(scope object.Scope, n *note) object.Version {
	p := w.proofs[scope]
	if p == nil {
		return ""
	}
	for _, of := range p.of {
		if of.upTo >= n.number && of.epoch == n.epoch {
			return of.version
		}
	}
	return ""
}

// prove gets a version that includes all writes to a scope so far, by a list of one object. It does not
// wait. w.mu must be held.
func (w *Writes[T]) prove(scope object.Scope) {
	p := w.proofs[scope]
	if p == nil {
		p = &proofs{}
		if w.proofs == nil {
			w.proofs = map[object.Scope]*proofs{}
		}
		w.proofs[scope] = p
	}
	if p.listing || time.Now().Before(p.next) {
		return
	}
	upTo, epoch := w.count, w.inf.epochIn(scope)
	p.listing = w.inf.spawn(func(ctx context.Context) {
		version, err := w.inf.latest(ctx, scope)
		w.mu.Lock()
		defer w.mu.Unlock()
		p.listing = false
		if err != nil || !version.Known() {
			p.delay = min(max(listAgain, 2*p.delay), listMost)
			p.next = time.Now().Add(p.delay)
			return
		}
		p.delay, p.next = 0, time.Now().Add(listAgain)
		p.of = slices.DeleteFunc(p.of, func(of proof) bool { return of.version.After(version) }) // of a history that was rewound
		if len(p.of) == maxProofs {
			p.of = slices.Delete(p.of, 0, 1)
		}
		p.of = append(p.of, proof{upTo, epoch, version})
		w.inf.moved.ring()
	})
}

// rewound voids a note whose version is after one that the server had later: its history was rewound in between. It
// may be rewound again before the mirror has that version. w.mu must be held.
func (w *Writes[T]) rewound(scope object.Scope, n *note) {
	if p := w.proofs[scope]; p != nil {
		for _, of := range p.of {
			if n.number <= of.upTo && n.awaited().After(of.version) {
				n.void = of.version
			}
		}
	}
}

// latest returns the version of the server's most recent state. A version before that of the mirror is
// of another history, and is not returned.
func (inf *Informer[T]) latest(ctx context.Context, scope object.Scope) (object.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Without the selectors, with which the server might have to search for the first object.
	opts := object.ListOptions{Selection: object.Selection{Namespace: inf.opts.Selection.Namespace}, Limit: 1}
	if scope != object.Everything {
		opts.Namespace = string(scope)
	}
	var before object.Version // an answer that is older than that comes from another history
	inf.View(func(snap store.Snapshot[T]) { before = snap.Mark(scope).Version })
	page, err := inf.src.List(ctx, opts, nil, func(object.Item[T]) error { return nil })
	if err != nil || before.After(page.Version) {
		return "", err
	}
	return page.Version, nil
}

// confirm asks the source of a scope for evidence that the mirror has everything up to a version.
func (inf *Informer[T]) confirm(scope object.Scope, version object.Version) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if src := inf.sources[scope]; src != nil && src.refl != nil {
		src.refl.Confirm(version)
	}
}
