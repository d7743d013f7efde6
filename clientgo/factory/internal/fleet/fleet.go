// Package fleet is what all informer factories have in common: informers that are made
// when they are first asked for, started together, waited for together, and ended
// together.
package fleet

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Fleet is the informers of one factory, by what the factory knows them by. The zero Fleet
// is ready to use. All methods may be called from any goroutine.
type Fleet[K comparable] struct {
	mu      sync.Mutex // guards everything below; held while an informer is made
	members map[K]cache.SharedIndexInformer
	started map[K]bool
	closed  bool
	running sync.WaitGroup
}

// Get returns the informer of a key, which is made if there is none.
func (f *Fleet[K]) Get(key K, create func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	informer, ok := f.members[key]
	if !ok {
		informer = create()
		if f.members == nil {
			f.members, f.started = map[K]cache.SharedIndexInformer{}, map[K]bool{}
		}
		f.members[key] = informer
	}
	return informer
}

// Start runs all informers that do not run yet, until the context ends. After Shutdown it
// does nothing.
func (f *Fleet[K]) Start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	for key, informer := range f.members {
		if !f.started[key] {
			f.started[key] = true
			f.running.Go(func() { informer.RunWithContext(ctx) })
		}
	}
}

// WaitForSync waits until all informers that were started are synced and their first watch has
// been answered, or the context ends, and returns which are synced. Without the watch, a program
// over a fake client, which has no history, could delete what was listed and never hear of it.
func (f *Fleet[K]) WaitForSync(ctx context.Context) map[K]bool {
	f.mu.Lock()
	started := map[K]cache.SharedIndexInformer{}
	for key := range f.started {
		started[key] = f.members[key]
	}
	f.mu.Unlock()
	synced := make(map[K]bool, len(started))
	for key, informer := range started {
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-ctx.Done():
		}
		if w, ok := informer.(interface{ WatchStarted() <-chan struct{} }); ok {
			select {
			case <-w.WatchStarted():
			case <-ctx.Done():
			}
		}
		synced[key] = informer.HasSynced()
	}
	return synced
}

// Shutdown waits until all informers have ended; whoever started them ends their context.
// None can be started any more. It may be called more than once.
func (f *Fleet[K]) Shutdown() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}
