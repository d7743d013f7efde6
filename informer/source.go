package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// source is one list and watch of the informer: everything, or one namespace. inf.mu guards it.
type source[T any] struct {
	scope  object.Scope
	wanted bool // false while it is being removed
	listed bool // the mirror has its state
	// leaving: the empty list that deletes its objects has not been applied yet. Lists applied
	// until then do not count.
	leaving bool
	// latest: the namespace has not been mirrored always, so that this process may have written to it
	// without a note. Its lists begin with the most recent state.
	latest bool
	// refl is the current or the last reflector; nil before the first. seen is the mark at which
	// the last one ended.
	refl   *reflector.Reflector[T]
	seen   object.Mark
	cancel context.CancelFunc // ends refl
}

// scopesOf returns the scopes of a list of namespaces.
func scopesOf(namespaces []string) []object.Scope {
	if namespaces == nil {
		return []object.Scope{object.Everything}
	}
	scopes := make([]object.Scope, 0, len(namespaces))
	for _, ns := range namespaces {
		if s := object.Scope(ns); !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// SetNamespaces replaces the set of mirrored namespaces. It does not wait. The objects of a new
// namespace are added when it has been listed, for which [Informer.WaitSynced] waits. Those of a
// removed one are deleted, as final state unknown, when its watch has ended. The error is
// [ErrStopped], or says that a name is empty or that Options.Namespaces was nil.
func (inf *Informer[T]) SetNamespaces(namespaces ...string) error {
	if inf.opts.Namespaces == nil {
		return errors.New("informer: SetNamespaces needs an informer made with Options.Namespaces")
	}
	if slices.Contains(namespaces, "") {
		return errors.New("informer: set namespaces: an empty name")
	}
	defer inf.moved.ring()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase == stopped {
		return ErrStopped
	}
	wanted := scopesOf(append([]string{}, namespaces...))
	for scope, src := range inf.sources {
		if src.wanted == slices.Contains(wanted, scope) {
			continue
		}
		src.wanted, src.latest = !src.wanted, true
		switch {
		case src.wanted: // added again before it was removed
			src.listed = false
		case src.cancel != nil:
			src.cancel()
		case inf.phase == fresh:
			delete(inf.sources, scope)
		}
	}
	for _, scope := range wanted {
		if inf.sources[scope] != nil {
			continue
		}
		src := &source[T]{scope: scope, wanted: true, latest: true}
		inf.sources[scope] = src
		if inf.phase == running {
			inf.running.Go(func() { inf.follow(src) })
		}
	}
	return nil
}

// SetShard changes the part of the objects that is mirrored. It does not wait. Objects in both parts
// stay, and changes of them are not missed. Objects that are new to the mirror are added when they
// have been listed, for which [Informer.WaitSynced] waits; [Informer.Shard] is the part that the
// mirror has. Objects that are no longer in the shard are removed, which subscribers receive as Left
// and not as deletions. The error is [ErrStopped].
//
// What is new is listed at the version that the watch has reached, so that a snapshot has all objects
// at one version. That may be older than the call: what happened since follows with the next events.
// To be sure of a certain version, use [Informer.WaitFor] or [Informer.WaitForKey].
//
// A change costs a list of what is new to the mirror and a watch request; see
// [reflector.Reflector.SetShard].
func (inf *Informer[T]) SetShard(shard object.Shard) error {
	defer inf.moved.ring()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase == stopped {
		return ErrStopped
	}
	more := !inf.shard.Covers(shard)
	inf.selective.Store(true)
	inf.shard = shard
	for _, src := range inf.sources {
		src.listed = src.listed && !more
		if src.refl != nil {
			src.refl.SetShard(shard)
		}
	}
	return nil
}

// Shard returns the part of the objects that the mirror has in every namespace. During a change of the
// shard that is what it has had until now, and before the first list an empty shard. The zero Shard is
// everything, and what an informer without a shard always returns.
func (inf *Informer[T]) Shard() (shard object.Shard) {
	inf.mu.Lock()
	wanted, scopes := inf.shard, len(inf.sources)
	inf.mu.Unlock()
	inf.View(func(snap store.Snapshot[T]) {
		listed := 0
		for mark := range snap.Marks() {
			listed++
			if shard.IsZero() || shard.Covers(mark.Shard) {
				shard = mark.Shard
			} else if lacks, ok := shard.Minus(mark.Shard); ok {
				shard, _ = shard.Minus(lacks)
			} else { // by another field, until all namespaces have changed
				shard = object.NewShard(shard.By())
			}
		}
		if listed < scopes && !wanted.IsZero() {
			shard = object.NewShard(wanted.By())
		}
	})
	return shard
}

// Wake makes sources that are backing off retry immediately, or when a Retry-After of the server has
// passed. It does not wait.
func (inf *Informer[T]) Wake() {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, src := range inf.sources {
		if src.refl != nil {
			src.refl.Wake()
		}
	}
}

// Relist lists all sources again and decodes every object, because of cause, which appears in logs
// and in the status. Subscribers receive the differences. It does not wait.
func (inf *Informer[T]) Relist(cause error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, src := range inf.sources {
		if src.refl != nil {
			src.refl.Relist(cause)
		}
	}
}

// newReflector creates a reflector for a source.
func (inf *Informer[T]) newReflector(src *source[T]) (*reflector.Reflector[T], error) {
	opts, scope := inf.opts.Reflector, src.scope
	opts.Name = inf.opts.Name
	opts.Selection = inf.opts.Selection
	opts.Scope = scope
	inf.mu.Lock()
	opts.Selection.Shard = inf.shard
	if opts.Since = src.seen; !opts.Since.Version.Known() {
		opts.Since = inf.left
	}
	opts.Since.Scope, opts.Latest = scope, opts.Latest || src.latest
	inf.mu.Unlock()
	opts.Transform, opts.Accessor = inf.opts.Transform, inf.acc
	if inf.opts.Form != nil {
		opts.Encoder = inf.store.Encoder
	}
	if scope != object.Everything {
		opts.Name += "/" + string(scope)
		opts.Selection.Namespace = string(scope)
	}
	return reflector.New(inf.src, inf.queue, opts)
}

// follow runs a source's reflectors, one after the other, until the source is removed or the
// informer ends.
func (inf *Informer[T]) follow(src *source[T]) {
	for {
		refl, err := inf.newReflector(src)
		if err != nil {
			inf.fail(err)
			return
		}
		ctx, cancel := context.WithCancel(inf.run)
		inf.mu.Lock()
		src.refl, src.cancel = refl, cancel
		refl.SetShard(inf.shard) // which may have changed since
		refl.Rewound(inf.epoch)
		wanted := src.wanted
		inf.mu.Unlock()
		if wanted {
			err = refl.Run(ctx)
		}
		cancel()
		inf.mu.Lock()
		src.seen = refl.Status().Mark
		inf.mu.Unlock()
		switch {
		case err != nil:
			inf.fail(err)
			return
		case inf.run.Err() != nil || inf.gone(src):
			return
		}
	}
}

// gone deletes the objects of a source that is being removed, and then the source. It returns
// false if the source was added again in the meantime.
func (inf *Informer[T]) gone(src *source[T]) bool {
	inf.mu.Lock()
	wanted, epoch := src.wanted, src.seen.Epoch
	src.leaving = !wanted
	inf.mu.Unlock()
	if wanted {
		return false
	}
	nothing := &object.List[T]{Mark: object.Mark{Scope: src.scope, Epoch: epoch}}
	if inf.queue.Apply(&object.Batch[T]{Changes: []object.Change[T]{{Kind: object.Replaced, List: nothing}}}) != nil {
		return true // closed: the informer ends
	}
	for {
		moved := inf.moved.wait()
		inf.mu.Lock()
		left, wanted := !src.leaving, src.wanted
		if left && !wanted {
			delete(inf.sources, src.scope)
			if at := src.seen; at.Epoch > inf.left.Epoch || at.Epoch == inf.left.Epoch && !at.Version.NotAfter(inf.left.Version) {
				inf.left = at
			}
		}
		inf.mu.Unlock()
		if left {
			return !wanted
		}
		select {
		case <-moved:
		case <-inf.run.Done():
			return true
		}
	}
}

// applied records that a list of the source was applied. nothing says that the list had neither
// items nor a version, and wanted that it was of everything to be mirrored. inf.mu must be held.
func (src *source[T]) applied(nothing, wanted bool) {
	switch {
	case !src.leaving:
		src.listed = src.listed || wanted
	case nothing:
		src.leaving = false
	}
}

// unlisted returns the sources that have not been listed. inf.mu must be held.
func (inf *Informer[T]) unlisted() (sources []*source[T]) {
	for _, src := range inf.sources {
		if src.wanted && !src.listed {
			sources = append(sources, src)
		}
	}
	return sources
}

// SourceStatus is the state of one list and watch.
type SourceStatus struct {
	// Scope is the namespace, or everything.
	Scope object.Scope
	// Listed is true when the mirror has its state.
	Listed bool
	// Reflector is the state of its list and watch.
	Reflector reflector.Status
}

// Err returns why the source is not live: the cause of its state or, if it has not been listed,
// its last error. It returns nil if there is none.
func (s SourceStatus) Err() error {
	if s.Reflector.Cause != nil {
		return s.Reflector.Cause
	}
	if s.Listed {
		return nil
	}
	return s.Reflector.LastError
}

// String returns the state and its cause in one line.
func (s SourceStatus) String() string {
	text := s.Reflector.String()
	if s.Reflector.Cause == nil && s.Err() != nil {
		text += fmt.Sprintf(": %v", s.Err())
	}
	return text
}

// sourceStatus returns the status of a source. inf.mu must be held.
func (inf *Informer[T]) sourceStatus(src *source[T]) SourceStatus {
	st := SourceStatus{Scope: src.scope, Listed: src.listed}
	if src.refl != nil {
		st.Reflector = src.refl.Status()
	} else {
		st.Reflector.Name = inf.opts.Name
		if src.scope != object.Everything {
			st.Reflector.Name += "/" + string(src.scope)
		}
	}
	return st
}
