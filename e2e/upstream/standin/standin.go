// Package standin has client-go's names, with the private members that its tests use, on top of
// what package clientgo exports. The harness compiles this file into the package of the tests, so
// that they reach the private names.
package standin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/tarnproject/tarn/clientgo"
)

// sharedProcessorRunHook delays the start of client-go's handlers in one test, which is left out.
// Nothing calls it here.
var sharedProcessorRunHook atomic.Pointer[func()]

// Reflector is the reflector under test, whose ListerWatcher can be replaced.
type Reflector struct {
	*clientgo.Reflector
	listerWatcher cache.ListerWatcher
}

// NewReflector is client-go's constructor of that name.
func NewReflector(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resyncPeriod time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{ResyncPeriod: resyncPeriod})
}

// NewReflectorWithOptions is client-go's constructor of that name.
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	r := &Reflector{listerWatcher: lw}
	r.Reflector = clientgo.NewReflectorWithOptions(current{r}, expectedType, store, options)
	return r
}

// current is the present ListerWatcher of a reflector.
type current struct{ r *Reflector }

// List implements cache.ListerWatcher.
func (c current) List(opts metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), opts)
}

// Watch implements cache.ListerWatcher.
func (c current) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), opts)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (c current) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return cache.ToListerWatcherWithContext(c.r.listerWatcher).ListWithContext(ctx, opts)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (c current) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return cache.ToListerWatcherWithContext(c.r.listerWatcher).WatchWithContext(ctx, opts)
}

// IsWatchListSemanticsUnSupported is what client-go's watchlist package looks for.
func (c current) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.r.listerWatcher)
}

var errNoWatch = errors.New("only a list is wanted")

// list lists once: watches are refused, and streaming lists with them.
func (r *Reflector) list(ctx context.Context) error {
	lw := r.listerWatcher
	defer func() { r.listerWatcher = lw }()
	r.listerWatcher = &cache.ListWatch{
		ListWithContextFunc: cache.ToListerWatcherWithContext(lw).ListWithContext,
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errNoWatch
		},
	}
	err := r.ListAndWatchWithContext(ctx)
	if errors.Is(err, errNoWatch) {
		return nil
	}
	return err
}

// setLastSyncResourceVersion has the reflector list nothing, at that version.
func (r *Reflector) setLastSyncResourceVersion(v string) {
	lw := r.listerWatcher
	defer func() { r.listerWatcher = lw }()
	r.listerWatcher = &cache.ListWatch{ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: v}}, nil
	}}
	if err := r.list(context.Background()); err != nil {
		panic(err)
	}
}

// FIFO is client-go's FIFO, a store for reflectors, with the methods that client-go's tests add
// to it.
type FIFO struct {
	*cache.FIFO
	mu   sync.Mutex // guards both, so that they agree
	held cache.Store
}

// NewFIFO is client-go's constructor of that name.
func NewFIFO(keyFunc cache.KeyFunc) *FIFO {
	return &FIFO{FIFO: cache.NewFIFO(keyFunc), held: cache.NewStore(keyFunc)}
}

// Add implements cache.ReflectorStore.
func (f *FIFO) Add(obj any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.FIFO.Add(obj), f.held.Add(obj))
}

// Update implements cache.ReflectorStore.
func (f *FIFO) Update(obj any) error { return f.Add(obj) }

// Delete implements cache.ReflectorStore.
func (f *FIFO) Delete(obj any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.FIFO.Delete(obj), f.held.Delete(obj))
}

// Replace implements cache.ReflectorStore.
func (f *FIFO) Replace(list []any, version string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.FIFO.Replace(list, version), f.held.Replace(list, version))
}

// Pop implements cache.Queue. It does not lock while it waits.
func (f *FIFO) Pop(process cache.PopProcessFunc) (any, error) {
	obj, err := f.FIFO.Pop(process)
	if err == nil {
		err = f.held.Delete(obj)
	}
	return obj, err
}

// List returns what has not been popped.
func (f *FIFO) List() []any { return f.held.List() }

// ListKeys returns the keys of what has not been popped.
func (f *FIFO) ListKeys() []string { return f.held.ListKeys() }

// Get returns an object that has not been popped.
func (f *FIFO) Get(obj any) (item any, exists bool, err error) { return f.held.Get(obj) }

// GetByKey returns an object that has not been popped.
func (f *FIFO) GetByKey(key string) (item any, exists bool, err error) { return f.held.GetByKey(key) }
