package informer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Synced returns a channel that is closed when the mirror has its initial state, in all
// namespaces it was started with.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.synced }

// Stopped returns a channel that is closed when Run ends: the mirror no longer changes, and
// Subscribe fails. Calls to subscribers may still be in progress.
func (inf *Informer[T]) Stopped() <-chan struct{} { return inf.ended }

// WaitSynced blocks until every source has been listed, including namespaces that were added
// later. If the context is done or the informer stops before that, the error is a
// [*NotSyncedError]. It names each source that is not listed and why, and unwraps to these
// causes, such as the API's Forbidden.
func (inf *Informer[T]) WaitSynced(ctx context.Context) error {
	return inf.wait(ctx, func() bool {
		inf.mu.Lock()
		defer inf.mu.Unlock()
		return inf.phase != fresh && len(inf.unlisted()) == 0
	}, func() {}, inf.notSynced)
}

func (inf *Informer[T]) notSynced(cause error) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	e := &NotSyncedError{Informer: inf.opts.Name, Cause: cause}
	for _, src := range inf.unlisted() {
		e.Sources = append(e.Sources, inf.sourceStatus(src))
	}
	slices.SortFunc(e.Sources, byScope)
	return e
}

func byScope(a, b SourceStatus) int { return cmp.Compare(a.Scope, b.Scope) }

// WaitFor blocks until the mirror has reached a version in every namespace that it mirrors. If
// the server's versions cannot be ordered, only the same version counts. If the server's history
// is rewound during the wait (etcd was restored), the version counts as reached. Otherwise the
// error is a [*NotReachedError].
//
// While nothing changes, the version advances only with the server's bookmarks. WaitFor asks for
// one after a quarter of a second, and kube-apiserver then sends it within about a second; see
// [reflector.Reflector.Confirm]. Other servers may never send any, so pass a context with a deadline.
func (inf *Informer[T]) WaitFor(ctx context.Context, version object.Version) error {
	epochs := map[object.Scope]object.Epoch{}
	var behind []object.Scope
	return inf.wait(ctx, func() bool {
		inf.View(func(snap store.Snapshot[T]) {
			behind = slices.DeleteFunc(inf.covered(), func(scope object.Scope) bool {
				mark := snap.Mark(scope)
				epoch, ok := epochs[scope]
				if !ok {
					epoch = mark.Epoch
					epochs[scope] = epoch
				}
				return mark.Reached(object.Mark{Scope: scope, Epoch: epoch, Version: version})
			})
		})
		return len(behind) == 0
	}, func() {
		for _, scope := range behind {
			inf.confirm(scope, version)
		}
	}, func(cause error) error { return inf.notReached(object.Key{}, version, cause) })
}

// WaitForKey blocks until the mirror has the object with the given key at a version or a later
// one, or has reached that version without the object. It is otherwise like [Informer.WaitFor].
// The cause of the error is [ErrNotCovered] for a namespace that is not mirrored.
func (inf *Informer[T]) WaitForKey(ctx context.Context, key object.Key, version object.Version) error {
	scope := inf.scopeOf(key)
	if !inf.covers(scope) {
		return inf.notReached(key, version, ErrNotCovered)
	}
	target := object.Mark{Scope: scope, Epoch: inf.epochOf(key), Version: version}
	return inf.wait(ctx, func() (reached bool) {
		inf.View(func(snap store.Snapshot[T]) {
			if reached = snap.Mark(scope).Reached(target); !reached {
				obj, ok := snap.Get(key)
				reached = ok && version.NotAfter(inf.acc.VersionOf(obj))
			}
		})
		return reached
	}, func() { inf.confirm(scope, version) }, func(cause error) error { return inf.notReached(key, version, cause) })
}

func (inf *Informer[T]) notReached(key object.Key, version object.Version, cause error) error {
	e := &NotReachedError{Informer: inf.opts.Name, Key: key, Version: version, Cause: cause}
	inf.View(func(snap store.Snapshot[T]) {
		for _, scope := range inf.covered() {
			if key.IsZero() || scope.Covers(key) {
				e.Marks = append(e.Marks, snap.Mark(scope))
			}
		}
	})
	return e
}

// epochOf returns the current epoch of a key's scope.
func (inf *Informer[T]) epochOf(key object.Key) object.Epoch { return inf.epochIn(inf.scopeOf(key)) }

func (inf *Informer[T]) epochIn(scope object.Scope) (epoch object.Epoch) {
	inf.View(func(snap store.Snapshot[T]) { epoch = snap.Mark(scope).Epoch })
	return epoch
}

// mirrors reports whether the informer has a source of a scope, which may be about to be removed.
func (inf *Informer[T]) mirrors(scope object.Scope) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.sources[scope] != nil
}

// covers reports whether the informer is meant to mirror a scope.
func (inf *Informer[T]) covers(scope object.Scope) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	src := inf.sources[scope]
	return src != nil && src.wanted
}

// covered returns the scopes that the informer is meant to mirror, sorted.
func (inf *Informer[T]) covered() []object.Scope {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	scopes := make([]object.Scope, 0, len(inf.sources))
	for scope, src := range inf.sources {
		if src.wanted {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return scopes
}

// wait blocks until done returns true; it calls done after every batch, and ask each time that askAfter has
// passed. If the context or the informer ends first, wait returns what failed returns for the cause.
func (inf *Informer[T]) wait(ctx context.Context, done func() bool, ask func(), failed func(cause error) error) error {
	var tick *time.Ticker
	for {
		moved := inf.moved.wait()
		if done() {
			return nil
		}
		if tick == nil {
			tick = time.NewTicker(askAfter)
			defer tick.Stop()
		}
		select {
		case <-moved:
		case <-tick.C:
			ask()
		case <-ctx.Done():
			return failed(context.Cause(ctx))
		case <-inf.ended:
			if done() {
				return nil
			}
			return failed(ErrStopped)
		}
	}
}
