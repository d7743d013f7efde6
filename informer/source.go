package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// source is one part of what the informer mirrors, with a reflector of its own:
// everything, or a namespace. The informer's lock guards it.
type source[T any] struct {
	scope  object.Scope
	wanted bool // if not, it is on its way out
	listed bool // the mirror has its state
	// leaving tells that the empty list by which its objects are deleted has not been
	// applied yet; what is applied until then is of the past.
	leaving bool
	// refl is the present reflector, or the last one; nil before the first. seen is where the
	// last one ended.
	refl   *reflector.Reflector[T]
	seen   object.Mark
	cancel context.CancelFunc // ends refl
}

// scopesOf returns the scopes that a list of namespaces means.
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

// SetNamespaces makes the informer mirror just these namespaces. It does not wait: the
// objects of new ones are added when they have been listed ([Informer.WaitSynced] waits
// for that), those of others deleted, as final state unknown, when their watches have
// ended. The error is [ErrAllNamespaces] or [ErrStopped], or says that a name is empty.
func (inf *Informer[T]) SetNamespaces(namespaces ...string) error {
	if inf.opts.Namespaces == nil {
		return ErrAllNamespaces
	}
	if slices.Contains(namespaces, "") {
		return errors.New("informer: a namespace without a name")
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
		src.wanted = !src.wanted
		switch {
		case src.wanted: // again, before it was gone
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
		src := &source[T]{scope: scope, wanted: true}
		inf.sources[scope] = src
		if inf.phase == running {
			inf.running.Go(func() { inf.follow(src) })
		}
	}
	return nil
}

// Wake makes sources that back off retry immediately, for a caller that knows that the cause of
// the failure is fixed. It does not wait.
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

// newReflector makes a reflector of a source.
func (inf *Informer[T]) newReflector(src *source[T]) (*reflector.Reflector[T], error) {
	opts, scope := inf.opts.Reflector, src.scope
	opts.Name = inf.opts.Name
	opts.Selection = inf.opts.Selection
	opts.Scope = scope
	inf.mu.Lock()
	if opts.Since = src.seen; !opts.Since.Version.Known() {
		opts.Since = inf.left
	}
	opts.Since.Scope = scope
	inf.mu.Unlock()
	opts.Transform, opts.Accessor = inf.opts.Transform, inf.acc
	if inf.opts.Form != nil {
		opts.Encode = inf.store.Encode
	}
	if scope != object.Everything {
		opts.Name += "/" + string(scope)
		opts.Selection.Namespace = string(scope)
	}
	return reflector.New(inf.src, inf.fifo, opts)
}

// follow runs a source's reflectors, one after the other, until the source is not wanted
// any more or the informer ends.
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

// gone deletes the objects of a source that is not wanted any more, and then the source,
// unless it is wanted again.
func (inf *Informer[T]) gone(src *source[T]) bool {
	inf.mu.Lock()
	wanted, epoch := src.wanted, src.seen.Epoch
	src.leaving = !wanted
	inf.mu.Unlock()
	if wanted {
		return false
	}
	if inf.fifo.Replace(object.List[T]{Mark: object.Mark{Scope: src.scope, Epoch: epoch}}) != nil {
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

// applied notes that a list of the source is in the mirror; nothing tells that it had
// neither items nor a version. The lock must be held.
func (src *source[T]) applied(nothing bool) {
	switch {
	case !src.leaving:
		src.listed = true
	case nothing:
		src.leaving = false
	}
}

// unlisted returns the sources whose state is not here yet. The lock must be held.
func (inf *Informer[T]) unlisted() (sources []*source[T]) {
	for _, src := range inf.sources {
		if src.wanted && !src.listed {
			sources = append(sources, src)
		}
	}
	return sources
}

// SourceStatus is a report on one source of an informer.
type SourceStatus struct {
	// Scope is what it covers.
	Scope object.Scope
	// Listed is true when the mirror has its state.
	Listed bool
	// Reflector is the state of its list and watch.
	Reflector reflector.Status
}

// Err returns why the source is not live: the cause of its state, or else its last error
// if it has not been listed; nil if there is none.
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

// status returns the source's status. The lock must be held.
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
