package clientgo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// NewReflector is client-go's constructor of that name.
func NewReflector(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resyncPeriod time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{ResyncPeriod: resyncPeriod})
}

// NewNamedReflector is client-go's constructor of that name.
func NewNamedReflector(name string, lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resyncPeriod time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{Name: name, ResyncPeriod: resyncPeriod})
}

// NewNamespaceKeyedIndexerAndReflector is client-go's constructor of that name.
func NewNamespaceKeyedIndexerAndReflector(lw cache.ListerWatcher, expectedType any, resyncPeriod time.Duration) (cache.Indexer, *Reflector) {
	indexer := NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return indexer, NewReflector(lw, expectedType, indexer, resyncPeriod)
}

// NewReflectorWithOptions is client-go's constructor of that name. Options with a Clock that
// is not the real one ask for client-go's reflector, and get it; testing/synctest needs none.
// Of a Backoff, the Duration and the Cap count.
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	r := &Reflector{lw: lw, expected: expectedType, store: store, resync: options.ResyncPeriod}
	r.opts = reflectorOptions(lw, options.Name)
	r.description = describe(expectedType, options.TypeDescription)
	r.opts.MinWatchTimeout = max(options.MinWatchTimeout, 5*time.Minute)
	if b := options.Backoff; b != nil {
		r.opts.Backoff = reflector.Backoff{Min: b.Duration, Max: max(b.Cap, b.Duration)}
	}
	if !realClock(options.Clock) {
		options.Name = r.opts.Name // not the place where this is called
		r.theirs = cache.NewReflectorWithOptions(lw, expectedType, store, options)
	}
	return r
}

// Reflector keeps a cache.ReflectorStore at the state of what a ListerWatcher lists and
// watches. It has the methods and fields of client-go's Reflector, of which it is no
// other form: that one is a struct, and a function that wants a *cache.Reflector cannot
// be given this one.
//
// The fields are to be set before it runs.
type Reflector struct {
	// WatchListPageSize is the size of the pages of a list. Defaults to 500, where the
	// server pages at all.
	WatchListPageSize int64
	// ShouldResync is asked before each resync. Defaults to always.
	ShouldResync func() bool
	// MaxInternalErrorRetryDuration is how long a watch that ends with an internal error
	// of the server is tried again before a list. Defaults to a minute.
	MaxInternalErrorRetryDuration time.Duration

	lw          cache.ListerWatcher
	expected    any
	store       cache.ReflectorStore
	description string
	resync      time.Duration
	opts        reflector.Options[*record]
	theirs      *cache.Reflector // works instead of this one if not nil

	mu   sync.Mutex // guards last
	last object.Mark
}

// Name returns the reflector's name.
func (r *Reflector) Name() string { return r.opts.Name }

// TypeDescription returns what the reflector says it lists.
func (r *Reflector) TypeDescription() string { return r.description }

// LastSyncResourceVersion returns the version up to which the store has been told
// everything.
func (r *Reflector) LastSyncResourceVersion() string {
	if r.theirs != nil {
		return r.theirs.LastSyncResourceVersion()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.last.Version)
}

// Run lists and watches until the channel is closed.
func (r *Reflector) Run(stopCh <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext lists and watches until the context is done. All goroutines have ended
// when it returns.
func (r *Reflector) RunWithContext(ctx context.Context) {
	if r.theirs != nil {
		r.instructed().RunWithContext(ctx)
		return
	}
	r.run(ctx, errorHandler(ctx, r.lw, r.expected, r.opts.Name, r.description, nil))
}

// ListAndWatch is [Reflector.ListAndWatchWithContext] with a channel.
func (r *Reflector) ListAndWatch(stopCh <-chan struct{}) error {
	return r.ListAndWatchWithContext(wait.ContextForChannel(stopCh))
}

// ListAndWatchWithContext lists and watches until the context is done, or until a list
// fails, or a watch in a way that asks for a list; the error is the list's.
func (r *Reflector) ListAndWatchWithContext(ctx context.Context) error {
	if r.theirs != nil {
		return r.instructed().ListAndWatchWithContext(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.run(ctx, func(err error) {
		if e := (*reflector.Error)(nil); errors.As(err, &e) {
			switch {
			case e.Op == "list" && e.Reason != reflector.Expired && e.Reason != reflector.TooLarge:
				cancel(fmt.Errorf("failed to list %s: %w", r.description, e.Err))
			case e.Op == "watch" && e.Reason == reflector.Expired:
				cancel(errEnded)
			}
		}
	})
	if err := context.Cause(ctx); err != errEnded && ctx.Err() != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

var errEnded = errors.New("the watch has ended")

// instructed returns client-go's reflector with the fields of this one.
func (r *Reflector) instructed() *cache.Reflector {
	r.theirs.WatchListPageSize, r.theirs.ShouldResync = r.WatchListPageSize, r.ShouldResync
	r.theirs.MaxInternalErrorRetryDuration = r.MaxInternalErrorRetryDuration
	return r.theirs
}

func (r *Reflector) run(ctx context.Context, onError func(error)) {
	fifo := must(delta.New(versioned, delta.Options[*record]{Known: everything{}}))
	opts := r.opts
	opts.OnError = onError
	opts.PageSize = r.WatchListPageSize
	opts.ServerErrorsFor = r.MaxInternalErrorRetryDuration
	r.mu.Lock()
	opts.Since = r.last
	r.mu.Unlock()
	inner := must(reflector.New(recordsOf(r.lw, r.expected), fifo, opts))

	var workers sync.WaitGroup
	workers.Go(func() { runReflector(ctx, inner) })
	if r.resync > 0 {
		workers.Go(func() { r.resyncEvery(ctx, fifo, inner) })
	}
	for {
		err := fifo.PopBatch(ctx, func(b *delta.Batch[*record], _ bool) error {
			if err := r.apply(ctx, b); err != nil {
				onError(&reflector.Error{Name: r.opts.Name, Op: "list", Reason: reflector.Asked, Err: err})
				inner.Relist(err)
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	fifo.Close()
	workers.Wait()
}

// apply tells the store what a batch says. The error is that of a Replace: everything has
// to be listed again.
func (r *Reflector) apply(ctx context.Context, b *delta.Batch[*record]) (lost error) {
	last := object.Version("")
	for i := range b.Deltas {
		d := &b.Deltas[i]
		var err error
		switch {
		case d.List != nil:
			if lost = r.replace(d.List); lost != nil {
				continue
			}
			last = d.List.Version
			continue
		case d.Type == delta.Added:
			err = r.store.Add(d.Object.obj)
		case d.Type == delta.Updated:
			err = r.store.Update(d.Object.obj)
		case d.Type == delta.Deleted && d.Object != nil:
			err = r.store.Delete(d.Object.obj)
		case d.Type == delta.Deleted:
			err = r.store.Delete(cache.DeletedFinalStateUnknown{Key: d.Key.String()})
		}
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Unable to tell the store of a watch event", "reflector", r.opts.Name, "event", d.Type)
		}
		last = versioned.VersionOf(d.Object)
	}
	if lost != nil {
		return lost
	}
	for _, mark := range b.Marks {
		if marks, ok := r.store.(cache.ReflectorBookmarkStore); ok && mark.Version != last {
			if err := marks.Bookmark(string(mark.Version)); err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "Unable to send bookmark event to store", "reflector", r.opts.Name)
			}
		} else if s, ok := r.store.(cache.Store); ok && mark.Version != last {
			s.Bookmark(string(mark.Version))
		}
		if u, ok := r.store.(cache.ResourceVersionUpdater); ok {
			u.UpdateResourceVersion(string(mark.Version))
		}
		r.mu.Lock()
		r.last = mark
		r.mu.Unlock()
	}
	return nil
}

func (r *Reflector) replace(list *object.List[*record]) error {
	objs := make([]any, 0, len(list.Items))
	for i := range list.Items {
		if item := &list.Items[i]; item.Err == nil {
			objs = append(objs, item.Object.obj)
		}
	}
	if err := r.store.Replace(objs, string(list.Version)); err != nil {
		return fmt.Errorf("unable to sync list result: %w", err)
	}
	return nil
}

// resyncEvery has the store resynced. A store that fails has everything listed again.
func (r *Reflector) resyncEvery(ctx context.Context, fifo *delta.FIFO[*record], inner *reflector.Reflector[*record]) {
	select {
	case <-ctx.Done():
		return
	case <-fifo.Synced():
	}
	everyPeriod(ctx, inner, r.resync, func() {
		if r.ShouldResync == nil || r.ShouldResync() {
			if err := r.store.Resync(); err != nil {
				inner.Relist(fmt.Errorf("resync: %w", err))
			}
		}
	})
}

// everything is a delta.Known that claims every key: what to make of the deletion of an
// unknown object is for the store behind the reflector to say. It holds nothing, so that
// all objects are decoded.
type everything struct{}

// Keys implements delta.Known; batches do not ask for them.
func (everything) Keys() iter.Seq[object.Key] { return func(func(object.Key) bool) {} }

// Get implements delta.Known.
func (everything) Get(object.Key) (*record, bool) { return nil, true }

// Held implements delta.Known.
func (everything) Held(object.Key, object.UID, object.Version) bool { return false }

// describe says what is listed: as the program does, or by the expected type.
func describe(expected any, given string) string {
	switch {
	case given != "":
		return given
	case expected == nil:
		return "<unspecified>"
	}
	if u, ok := expected.(*unstructured.Unstructured); ok && !u.GroupVersionKind().Empty() {
		return u.GroupVersionKind().String()
	}
	return reflect.TypeOf(expected).String()
}
