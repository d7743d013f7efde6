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

// Handle is one user's part of a mirror that others may share. It reads and subscribes as
// an informer.Informer does, which [Handle.Informer] returns for whoever needs that.
//
// [Handle.Close] ends the subscriptions that were made by this handle; with the last
// handle the mirror stops. It may be read ever after, and its memory goes with the last
// reference to it. All methods may be called from any goroutine, also from callbacks,
// before, during and after the cluster's Run. None waits for a subscriber.
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

// Close gives the handle up. It does not wait. Closing again does nothing.
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
// The cluster runs it; do not call its Run or SetNamespaces. Subscriptions that are made
// by it are not ended by Close, unless the mirror is.
func (h *Handle[T]) Informer() *informer.Informer[T] { return h.inf }

// API returns the verbs of the resource, for writes. With controller.NewClient they are
// remembered until the mirror shows them:
//
//	client := controller.NewClient(pods.API(), pods.Informer())
func (h *Handle[T]) API() *wire.API[T] { return h.api }

// Get returns the object of a key. It takes no lock and allocates nothing (unless the
// object has to be decoded). The object is shared: do not write to it.
func (h *Handle[T]) Get(key object.Key) (obj T, ok bool) { return h.inf.Get(key) }

// Len returns the number of objects.
func (h *Handle[T]) Len() int { return h.inf.Len() }

// Snapshot returns the mirror as it is now, in constant time. It never changes. Release it
// when done, or leave that to the garbage collector.
func (h *Handle[T]) Snapshot() store.Snapshot[T] { return h.inf.Snapshot() }

// Pin is [Handle.Snapshot] for a short read: it allocates nothing, but must be released,
// once.
func (h *Handle[T]) Pin() store.Snapshot[T] { return h.inf.Pin() }

// AddIndex gives the mirror one more index, which sees what is already there. It is
// [WithIndex] for later.
func (h *Handle[T]) AddIndex(x store.AnyIndex[T]) { h.inf.AddIndex(x) }

// Synced returns a channel that is closed when the mirror has its initial state.
func (h *Handle[T]) Synced() <-chan struct{} { return h.inf.Synced() }

// WaitSynced waits until the mirror has its state. The error is an
// *informer.NotSyncedError, which tells what keeps each part that is missing.
// [Cluster.WaitSynced] waits for all mirrors.
func (h *Handle[T]) WaitSynced(ctx context.Context) error {
	ctx, end := h.whileOpen(ctx)
	defer end()
	return h.inf.WaitSynced(ctx)
}

// WaitFor waits until the mirror has reached a version; see informer.Informer.WaitFor.
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

// Writes returns what remembers this process's writes, so that reads are not older than
// these: pods.Writes().Wrote(pod) after a write, and pods.Writes().Get(ctx, key) to read. A
// client made by controller.NewClient does the first by itself.
func (h *Handle[T]) Writes() *informer.Writes[T] { return h.inf.Writes() }

// Subscribe has the handler's functions called for every object there is and for every
// change, until the subscription is removed or the handle closed. The error is
// informer.ErrStopped, or says which option cannot be met.
func (h *Handle[T]) Subscribe(handler informer.Handler[T], opts informer.SubOptions[T]) (*informer.Subscription, error) {
	return h.subscribe(opts, func(opts informer.SubOptions[T]) (*informer.Subscription, error) {
		return h.inf.Subscribe(handler, opts)
	})
}

// SubscribeBatch has f called with all the changes that there are, up to about a thousand
// at a time; see informer.Informer.SubscribeBatch.
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

// Events yields every object there is and then every change, in order, until the context
// is done or the handle closed; see informer.Informer.Events.
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

// Status tells how the mirror does.
func (h *Handle[T]) Status() MirrorStatus { return h.cluster.statusOf(h.mirror) }
