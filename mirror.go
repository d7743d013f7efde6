package tarn

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// Mirror is a live, read-only copy of a resource's objects, shared by everything in the process
// that requests the same. Objects that it returns are shared: do not write to them. [Client]
// returns copies, and writes.
//
// A Mirror is one user's reference. [Mirror.Close] ends the subscriptions made through it, and
// closing the last reference stops the mirror. Its last state stays readable, and is freed with
// the last reference to it. All methods are safe for concurrent use, also from callbacks,
// before, during and after the cluster's Run. None waits for a subscriber.
type Mirror[T Object] struct {
	cluster *Cluster
	shared  *shared
	claim   *claim
	inf     *informer.Informer[T]
	api     *wire.API[T]

	open  context.Context // done when it is closed
	close context.CancelFunc

	mu   sync.Mutex // guards subs
	subs []*informer.Subscription
}

func newMirror[T Object](c *Cluster, of *shared, cl *claim, inf *informer.Informer[T], api *wire.API[T]) *Mirror[T] {
	m := &Mirror[T]{cluster: c, shared: of, claim: cl, inf: inf, api: api}
	m.open, m.close = context.WithCancel(context.Background())
	return m
}

// Close closes this reference. It does not block. Further calls do nothing.
func (m *Mirror[T]) Close() {
	m.mu.Lock()
	m.close()
	subs := m.subs
	m.subs = nil
	m.mu.Unlock()
	for _, sub := range subs {
		sub.Remove()
	}
	m.cluster.release(m.shared, m.claim)
}

// Name returns the mirror's name.
func (m *Mirror[T]) Name() string { return m.shared.name }

// Informer returns the shared informer. The cluster runs it; do not call its Run or
// SetNamespaces. Close does not end subscriptions made through it, unless it stops the mirror.
func (m *Mirror[T]) Informer() *informer.Informer[T] { return m.inf }

// Resource returns the mirrored resource.
func (m *Mirror[T]) Resource() object.Resource { return m.shared.id.resource }

// UIDOf returns the UID of the object with the given key.
func (m *Mirror[T]) UIDOf(key Key) (uid object.UID, ok bool) { return m.inf.UIDOf(key) }

// API returns the verbs of the resource without the cache: reads go to the server, and writes
// are neither tracked nor fenced. See [Mirror.Client].
func (m *Mirror[T]) API() *wire.API[T] { return m.api }

// Get returns the object with the given key. It takes no lock, and allocates only to decode
// an object in compact form. The object is shared: do not write to it.
func (m *Mirror[T]) Get(key Key) (obj T, ok bool) { return m.inf.Get(key) }

// Len returns the number of objects.
func (m *Mirror[T]) Len() int { return m.inf.Len() }

// Snapshot returns the current state of the mirror, in constant time. It never changes.
// Release it when done, or leave that to the garbage collector.
func (m *Mirror[T]) Snapshot() Snapshot[T] { return m.inf.Snapshot() }

// View calls f with the current state of the mirror, which f must not keep. It is
// [Mirror.Snapshot] without the allocation.
func (m *Mirror[T]) View(f func(Snapshot[T])) { m.inf.View(f) }

// AddIndex adds indexes to the mirror, over existing and future objects. A mirror has the
// indexes of all its users, for as long as it exists. Adding an index again does nothing.
func (m *Mirror[T]) AddIndex(indexes ...store.AnyIndex[T]) {
	for _, x := range indexes {
		m.inf.AddIndex(x)
	}
}

// Synced returns a channel that is closed when the mirror is synced.
func (m *Mirror[T]) Synced() <-chan struct{} { return m.inf.Synced() }

// WaitSynced blocks until the mirror is synced. The error is an *informer.NotSyncedError,
// which names each source that is not synced and why. [Cluster.WaitSynced] waits for all
// mirrors.
func (m *Mirror[T]) WaitSynced(ctx context.Context) error {
	ctx, end := m.whileOpen(ctx)
	defer end()
	return m.inf.WaitSynced(ctx)
}

// WaitFor blocks until the mirror has reached a version; see informer.Informer.WaitFor.
func (m *Mirror[T]) WaitFor(ctx context.Context, version object.Version) error {
	ctx, end := m.whileOpen(ctx)
	defer end()
	return m.inf.WaitFor(ctx, version)
}

// whileOpen returns a context that also ends when the mirror is closed.
func (m *Mirror[T]) whileOpen(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(m.open, func() { cancel(informer.ErrStopped) })
	return ctx, func() { stop(); cancel(nil) }
}

// Writes returns the tracker of this process's writes, for programs that write by other means
// than [Mirror.Client]: call Wrote after a write, and Get to read.
func (m *Mirror[T]) Writes() *informer.Writes[T] { return m.inf.Writes() }

// Subscribe calls the handler for every existing object and then for every change, until the
// subscription is removed or the mirror closed. The error is informer.ErrStopped, or names
// the invalid option.
func (m *Mirror[T]) Subscribe(handler Handler[T], opts SubOptions[T]) (*informer.Subscription, error) {
	opts.Name = cmp.Or(opts.Name, callSite())
	return m.own(func() (*informer.Subscription, error) { return m.inf.Subscribe(handler, opts) })
}

// SubscribeBatch calls f with all pending changes, up to about a thousand at a time; see
// informer.Informer.SubscribeBatch.
func (m *Mirror[T]) SubscribeBatch(f func(context.Context, []Event[T]), opts SubOptions[T]) (*informer.Subscription, error) {
	opts.Name = cmp.Or(opts.Name, callSite())
	return m.own(func() (*informer.Subscription, error) { return m.inf.SubscribeBatch(f, opts) })
}

// own makes a subscription that ends with the mirror.
func (m *Mirror[T]) own(subscribe func() (*informer.Subscription, error)) (*informer.Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open.Err() != nil {
		return nil, informer.ErrStopped
	}
	sub, err := subscribe()
	if err != nil {
		return nil, err
	}
	m.subs = slices.DeleteFunc(m.subs, func(s *informer.Subscription) bool {
		select {
		case <-s.Done():
			return true
		default:
			return false
		}
	})
	m.subs = append(m.subs, sub)
	return sub, nil
}

// Events yields every existing object and then every change, in order, until the context is
// done or the mirror closed; see informer.Informer.Events.
func (m *Mirror[T]) Events(ctx context.Context) iter.Seq[Event[T]] {
	named := SubOptions[T]{Name: callSite()}
	return func(yield func(Event[T]) bool) {
		ctx, end := m.whileOpen(ctx)
		defer end()
		m.inf.Events(ctx, named)(yield)
	}
}

// Status returns the status of the mirror.
func (m *Mirror[T]) Status() MirrorStatus { return m.cluster.statusOf(m.shared) }
