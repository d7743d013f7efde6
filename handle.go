package tarn

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// Handle is one user's reference to a mirror that others may share. It has the read and
// subscribe methods of informer.Informer, which [Handle.Informer] returns.
//
// [Handle.Close] ends the subscriptions made through this handle. Closing the last handle
// stops the mirror. Its last state stays readable, and is freed with the last reference to
// it. All methods are safe for concurrent use, also from callbacks, before, during and after
// the cluster's Run. None waits for a subscriber.
type Handle[T any] struct {
	cluster *Cluster
	mirror  *mirror
	claim   *claim
	inf     *informer.Informer[T]
	api     *wire.API[T]

	open  context.Context // done when the handle is closed
	close context.CancelFunc

	mu   sync.Mutex // guards subs
	subs []*informer.Subscription
}

func newHandle[T any](c *Cluster, m *mirror, cl *claim, inf *informer.Informer[T], api *wire.API[T]) *Handle[T] {
	h := &Handle[T]{cluster: c, mirror: m, claim: cl, inf: inf, api: api}
	h.open, h.close = context.WithCancel(context.Background())
	return h
}

// Close closes the handle. It does not block. Further calls do nothing.
func (h *Handle[T]) Close() {
	h.mu.Lock()
	h.close()
	subs := h.subs
	h.subs = nil
	h.mu.Unlock()
	for _, sub := range subs {
		sub.Remove()
	}
	h.cluster.release(h.mirror, h.claim)
}

// Name returns the mirror's name.
func (h *Handle[T]) Name() string { return h.mirror.name }

// Informer returns the shared informer, for controller.For and the like:
//
//	controller.For(pods.Informer())
//
// The cluster runs it; do not call its Run or SetNamespaces. Close does not end subscriptions
// made through it, unless it stops the mirror.
func (h *Handle[T]) Informer() *informer.Informer[T] { return h.inf }

// API returns the verbs of the resource, for writes. A controller.Client tracks its writes
// until the mirror has them:
//
//	client := controller.NewClient(pods.API(), pods.Informer())
func (h *Handle[T]) API() *wire.API[T] { return h.api }

// Get returns the object with the given key. It takes no lock, and allocates only to decode
// an object in compact form. The object is shared: do not write to it.
func (h *Handle[T]) Get(key object.Key) (obj T, ok bool) { return h.inf.Get(key) }

// Len returns the number of objects.
func (h *Handle[T]) Len() int { return h.inf.Len() }

// Snapshot returns the current state of the mirror, in constant time. It never changes.
// Release it when done, or leave that to the garbage collector.
func (h *Handle[T]) Snapshot() store.Snapshot[T] { return h.inf.Snapshot() }

// Pin is [Handle.Snapshot] without the allocation. The caller must release it exactly once.
func (h *Handle[T]) Pin() store.Snapshot[T] { return h.inf.Pin() }

// AddIndex adds an index to the mirror, over existing and future objects. See also
// [WithIndex].
func (h *Handle[T]) AddIndex(x store.AnyIndex[T]) { h.inf.AddIndex(x) }

// Synced returns a channel that is closed when the mirror is synced.
func (h *Handle[T]) Synced() <-chan struct{} { return h.inf.Synced() }

// WaitSynced blocks until the mirror is synced. The error is an *informer.NotSyncedError,
// which names each source that is not synced and why. [Cluster.WaitSynced] waits for all
// mirrors.
func (h *Handle[T]) WaitSynced(ctx context.Context) error {
	ctx, end := h.whileOpen(ctx)
	defer end()
	return h.inf.WaitSynced(ctx)
}

// WaitFor blocks until the mirror has reached a version; see informer.Informer.WaitFor.
func (h *Handle[T]) WaitFor(ctx context.Context, version object.Version) error {
	ctx, end := h.whileOpen(ctx)
	defer end()
	return h.inf.WaitFor(ctx, version)
}

// whileOpen returns a context that also ends when the handle is closed.
func (h *Handle[T]) whileOpen(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.open, func() { cancel(informer.ErrStopped) })
	return ctx, func() { stop(); cancel(nil) }
}

// Writes returns the tracker of this process's writes, for reads that are never older than
// them: call pods.Writes().Wrote(pod) after a write, and pods.Writes().Get(ctx, key) to read.
// A controller.Client calls Wrote itself.
func (h *Handle[T]) Writes() *informer.Writes[T] { return h.inf.Writes() }

// Subscribe calls the handler for every existing object and then for every change, until the
// subscription is removed or the handle closed. The error is informer.ErrStopped, or names
// the invalid option.
func (h *Handle[T]) Subscribe(handler informer.Handler[T], opts informer.SubOptions[T]) (*informer.Subscription, error) {
	return h.subscribe(opts, func(opts informer.SubOptions[T]) (*informer.Subscription, error) {
		return h.inf.Subscribe(handler, opts)
	})
}

// SubscribeBatch calls f with all pending changes, up to about a thousand at a time; see
// informer.Informer.SubscribeBatch.
func (h *Handle[T]) SubscribeBatch(f func(context.Context, []informer.Event[T]), opts informer.SubOptions[T]) (*informer.Subscription, error) {
	return h.subscribe(opts, func(opts informer.SubOptions[T]) (*informer.Subscription, error) {
		return h.inf.SubscribeBatch(f, opts)
	})
}

func (h *Handle[T]) subscribe(opts informer.SubOptions[T], do func(informer.SubOptions[T]) (*informer.Subscription, error)) (*informer.Subscription, error) {
	if opts.Name == "" {
		opts.Name = callSite()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.Err() != nil {
		return nil, informer.ErrStopped
	}
	sub, err := do(opts)
	if err != nil {
		return nil, err
	}
	h.subs = slices.DeleteFunc(h.subs, func(s *informer.Subscription) bool {
		select {
		case <-s.Done():
			return true
		default:
			return false
		}
	})
	h.subs = append(h.subs, sub)
	return sub, nil
}

// Events yields every existing object and then every change, in order, until the context is
// done or the handle closed; see informer.Informer.Events.
func (h *Handle[T]) Events(ctx context.Context, opts informer.SubOptions[T]) iter.Seq[informer.Event[T]] {
	if opts.Name == "" {
		opts.Name = callSite()
	}
	return func(yield func(informer.Event[T]) bool) {
		ctx, end := h.whileOpen(ctx)
		defer end()
		h.inf.Events(ctx, opts)(yield)
	}
}

// Status returns the status of the mirror.
func (h *Handle[T]) Status() MirrorStatus { return h.cluster.statusOf(h.mirror) }
