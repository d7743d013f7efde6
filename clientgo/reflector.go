package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

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
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	r := &Reflector{lw: lw, expected: expectedType, store: store, resync: options.ResyncPeriod}
	r.opts = reflectorOptions(lw, options.Name)
	r.description = describe(expectedType, options.TypeDescription)
	r.opts.MinWatchTimeout = max(options.MinWatchTimeout, minWatchTimeout)
	if options.Backoff != nil {
		r.opts.Delay = options.Backoff.DelayWithReset(clock.RealClock{}, backoffReset)
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
	opts        reflector.Options[record]
	theirs      *cache.Reflector // works instead of this one if not nil

	mu    sync.Mutex // guards what follows
	last  object.Mark
	paged bool // see isPaged
}

// Name returns the reflector's name.
func (r *Reflector) Name() string { return r.opts.Name }

// TypeDescription returns what the reflector says it lists.
func (r *Reflector) TypeDescription() string { return r.description }

// LastSyncResourceVersion returns the version up to which the store has received every change.
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
	r.run(ctx, nil, errorHandler(ctx, r.lw, r.expected, r.opts.Name, r.description, nil))
}

// ListAndWatch is [Reflector.ListAndWatchWithContext] with a channel.
func (r *Reflector) ListAndWatch(stopCh <-chan struct{}) error {
	return r.ListAndWatchWithContext(wait.ContextForChannel(stopCh))
}

// ListAndWatchWithContext lists once and then watches until the context is done; it returns nil
// then. It also returns when the list, or the request for a watch, fails, with that error; and
// with nil when a watch ends in an error or expires, or the store's Resync fails. Watches that
// are throttled or refused are tried again, and internal errors for as long as
// MaxInternalErrorRetryDuration says.
func (r *Reflector) ListAndWatchWithContext(ctx context.Context) error {
	if r.theirs != nil {
		return r.instructed().ListAndWatchWithContext(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := &ending{cancel: cancel, retry: r.MaxInternalErrorRetryDuration}
	r.run(ctx, end, func(err error) {
		e := (*reflector.Error)(nil)
		switch {
		case !errors.As(err, &e) || e.Op != "list":
		case e.Reason == reflector.Requested:
			end.with(e.Err)
		case e.Reason != reflector.Expired && e.Reason != reflector.TooLarge && e.Reason != reflector.Rewind:
			end.with(fmt.Errorf("failed to list %s: %w", r.description, e.Err))
		}
	})
	return end.result()
}

// instructed returns client-go's reflector with the fields of this one.
func (r *Reflector) instructed() *cache.Reflector {
	r.theirs.WatchListPageSize, r.theirs.ShouldResync = r.WatchListPageSize, r.ShouldResync
	r.theirs.MaxInternalErrorRetryDuration = r.MaxInternalErrorRetryDuration
	return r.theirs
}

// isPaged reports whether the first list came in pages: the server has no watch cache then, and
// later lists are paged too, as in client-go.
func (r *Reflector) isPaged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paged
}

func (r *Reflector) setPaged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paged = true
}

// run lists and watches until the context is done. end is what makes it so; nil for Run.
func (r *Reflector) run(ctx context.Context, end *ending, onError func(error)) {
	opts := r.opts
	opts.OnError = onError
	opts.PageSize = r.WatchListPageSize
	opts.ServerErrorsFor = r.MaxInternalErrorRetryDuration
	r.mu.Lock()
	opts.Since = r.last
	r.mu.Unlock()
	f := &storeFeed{r: r, ctx: ctx, listed: make(chan struct{})}
	src := &reflectorSource{Source: owned{recordsOf(r.lw, r.expected)}, r: r, pageSize: r.WatchListPageSize, ended: end}
	inner := must(reflector.New(src, f, opts))
	f.lost = func(err error) {
		onError(&reflector.Error{Name: r.opts.Name, Op: "list", Reason: reflector.Requested, Err: err})
		inner.Relist(err)
	}

	var workers sync.WaitGroup
	if r.resync > 0 {
		workers.Go(func() { r.resyncEvery(ctx, f.listed, inner, end) })
	}
	runUntil(ctx, inner.Run)
	workers.Wait()
}

// storeFeed is the end of a reflector that feeds the program's store, in the reflector's
// goroutine.
type storeFeed struct {
	r      *Reflector
	ctx    context.Context // of the run
	listed chan struct{}   // closed after the first list
	lost   func(error)     // has everything listed again
	losing bool            // until the next flush
}

// Apply implements object.Sink: it calls the store for each change. What to make of the
// deletion of an unknown object is for the store to decide.
func (f *storeFeed) Apply(b *object.Batch[record]) error {
	for i := range b.Changes {
		switch c := &b.Changes[i]; {
		case c.List != nil:
			f.replace(c.List)
		case c.Kind == object.Quarantined:
			// As client-go does, it keeps what the store has of an object that cannot be decoded.
		case c.Kind == object.Added:
			f.stored(f.r.store.Add(c.Value.Object.obj), watch.Added)
		case c.Kind == object.Updated:
			f.stored(f.r.store.Update(c.Value.Object.obj), watch.Modified)
		case c.Unknown:
			f.stored(f.r.store.Delete(cache.DeletedFinalStateUnknown{Key: c.Key.String()}), watch.Deleted)
		default:
			f.stored(f.r.store.Delete(c.Value.Object.obj), watch.Deleted)
		}
	}
	listed := len(b.Changes) > 0 && b.Changes[0].List != nil
	for _, m := range b.Marks {
		if len(b.Changes) == 0 {
			f.bookmark(m)
		}
		f.flush(seen(b, m), listed)
	}
	return nil
}

// stored reports the error of a store that refused an event.
func (f *storeFeed) stored(err error, event watch.EventType) {
	if err != nil {
		utilruntime.HandleErrorWithContext(f.ctx, err, "Unable to write a watch event to the store", "reflector", f.r.Name(), "event", event)
	}
}

func (f *storeFeed) replace(list *object.List[record]) {
	objs := make([]any, 0, len(list.Items))
	for i := range list.Items {
		if item := &list.Items[i]; item.Err == nil {
			objs = append(objs, item.Object.obj)
		}
	}
	if err := f.r.store.Replace(objs, string(list.Version)); err != nil {
		f.losing = true
		f.lost(fmt.Errorf("unable to sync list result: %w", err))
		return
	}
	if !isClosed(f.listed) {
		close(f.listed)
	}
}

func (f *storeFeed) bookmark(mark object.Mark) {
	if marks, ok := f.r.store.(cache.ReflectorBookmarkStore); ok {
		if err := marks.Bookmark(string(mark.Version)); err != nil {
			utilruntime.HandleErrorWithContext(f.ctx, err, "Unable to send bookmark event to store", "reflector", f.r.Name())
		}
	} else if s, ok := f.r.store.(cache.Store); ok {
		s.Bookmark(string(mark.Version))
	}
}

// flush notes that the store has everything up to the mark, unless it did not take the list. As in
// client-go, a list's version is an argument of Replace only, and that of every event is passed on.
func (f *storeFeed) flush(mark object.Mark, listed bool) {
	if f.losing {
		f.losing = false
		return
	}
	f.r.mu.Lock()
	f.r.last = mark
	f.r.mu.Unlock()
	if u, ok := f.r.store.(cache.ResourceVersionUpdater); ok && !listed {
		u.UpdateResourceVersion(string(mark.Version))
	}
}

// Held implements object.Sink. Nothing is, so that all objects are decoded.
func (f *storeFeed) Held(object.Key, object.UID, object.Version) bool { return false }

// resyncEvery has the store resynced. A store that fails ends ListAndWatch; in Run everything is
// listed again.
func (r *Reflector) resyncEvery(ctx context.Context, listed <-chan struct{}, inner *reflector.Reflector[record], end *ending) {
	select {
	case <-ctx.Done():
		return
	case <-listed:
	}
	everyPeriod(ctx, inner, r.resync, func() {
		if r.ShouldResync == nil || r.ShouldResync() {
			if err := r.store.Resync(); err != nil {
				if end != nil {
					end.with(nil)
					return
				}
				inner.Relist(fmt.Errorf("resync: %w", err))
			}
		}
	})
}

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
