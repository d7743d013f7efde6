package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// mirror is the cache.Indexer of an informer: a view of its store. Reads take no lock. A program
// may write to it, as tests do before the informer runs: no handler is called for that, and what
// the server sends later wins.
type mirror struct {
	core    *informer.Informer[record]
	gauge   cache.Store // sets the metric for each resource version that it receives; nil without metrics
	indexes atomic.Pointer[mirrorIndexes]
	objects atomic.Pointer[listing[any]]
	keys    atomic.Pointer[listing[string]]
	failed  atomic.Pointer[store.IndexError] // the last failure of an index function, until it is reported

	adding sync.Mutex // AddIndexers take turns; taken before the core's locks
	mu     sync.Mutex // guards rv; taken inside of them
	rv     string
}

var _ cache.TransactionStore = (*mirror)(nil)

// mirrorIndexes never change; AddIndexers replaces them.
type mirrorIndexes struct {
	funcs  cache.Indexers
	byName map[string]*store.Index[record, string]
}

// listing is all objects or all keys at one revision of the store, in the store's chunks. It never
// changes; a later one shares the chunks that are the same.
type listing[E any] struct {
	revision uint64
	size     int
	chunks   [][]E
}

// indexFailed notes that an index function failed. The core's lock of writers is held.
func (m *mirror) indexFailed(err *store.IndexError) { m.failed.Store(err) }

// edit has f write to the store. As in client-go, it panics if an index function fails.
func (m *mirror) edit(f func(*store.Store[record]) error) error {
	var err error
	var failed *store.IndexError
	m.core.Edit(func(s *store.Store[record]) {
		before := m.failed.Swap(nil) // of a batch, which applied reports
		err = f(s)
		failed = m.failed.Swap(before)
	})
	if failed != nil || errors.As(err, &failed) {
		panic(indexError(failed.Key.String(), failed.Index, failed.Cause))
	}
	return err
}

// applied notes what a batch of the informer's has done.
func (m *mirror) applied(ctx context.Context, b *object.Batch[record]) {
	var mark object.Mark
	if n := len(b.Marks); n > 0 {
		mark = b.Marks[n-1]
	}
	if version := seen(b, mark).Version; version.Known() {
		m.Bookmark(string(version))
	}
	if err := m.failed.Swap(nil); err != nil {
		// A mirror cannot refuse what the server has, nor end the program for it.
		utilruntime.HandleErrorWithContext(ctx, indexError(err.Key.String(), err.Index, err.Cause), "Unable to index an object of the informer")
	}
}

func (m *mirror) Bookmark(rv string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rv = rv
	if m.gauge != nil {
		m.gauge.Bookmark(rv)
	}
}

// LastStoreSyncResourceVersion implements cache.Store. As in client-go, it is empty where the
// feature AtomicFIFO is off.
func (m *mirror) LastStoreSyncResourceVersion() string {
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rv
}

// Resync implements cache.Store: there is nothing to do.
func (m *mirror) Resync() error { return nil }

// Add implements cache.Store. If an index function fails, nothing has been stored when it panics.
func (m *mirror) Add(obj any) error {
	return m.edit(func(s *store.Store[record]) error {
		err := s.Set(&box{obj})
		if err == nil {
			m.reached(obj)
		}
		return err
	})
}

func (m *mirror) Update(obj any) error { return m.Add(obj) }

func (m *mirror) Delete(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	return m.edit(func(s *store.Store[record]) error {
		s.Delete(key)
		m.reached(obj)
		return nil
	})
}

// reached notes the resource version of an object that a program wrote, if it has metadata.
func (m *mirror) reached(obj any) {
	if version, ok := versionFrom(obj); ok {
		m.Bookmark(version)
	}
}

func (m *mirror) Replace(list []any, version string) error {
	records := make([]record, 0, len(list))
	for _, obj := range list {
		if _, err := keyOf(obj); err != nil {
			return err
		}
		records = append(records, &box{obj})
	}
	return m.edit(func(s *store.Store[record]) error {
		m.Bookmark(version)
		return s.Replace(object.Version(version), records...)
	})
}

// Transaction implements cache.TransactionStore. As in client-go, an object without a key is left
// out and reported.
func (m *mirror) Transaction(txns ...cache.Transaction) *cache.TransactionError {
	var batch object.Batch[record]
	done := make([]int, 0, len(txns))
	var errs []error
	for i, txn := range txns {
		key, err := keyOf(txn.Object)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, i)
		kind := object.Updated
		if txn.Type == cache.TransactionTypeDelete {
			kind = object.Deleted
		}
		batch.Changes = append(batch.Changes, object.Change[record]{Kind: kind, Key: key, Value: object.Decoded(&box{txn.Object})})
	}
	_ = m.edit(func(s *store.Store[record]) error { // it has an error for objects without keys only
		if n := len(batch.Changes); n > 0 {
			m.reached(batch.Changes[n-1].Value.Object.obj)
		}
		_, err := s.Apply(&batch, nil)
		return err
	})
	if len(errs) == 0 {
		return nil
	}
	return &cache.TransactionError{SuccessfulIndices: done, TotalTransactions: len(txns), Errors: errs}
}

func (m *mirror) Get(obj any) (item any, exists bool, err error) {
	key, err := keyOf(obj)
	if err != nil {
		return nil, false, err
	}
	item, exists = m.get(key)
	return item, exists, nil
}

func (m *mirror) GetByKey(key string) (item any, exists bool, err error) {
	item, exists = m.get(object.RawKey(key))
	return item, exists, nil
}

func (m *mirror) get(key object.Key) (item any, exists bool) {
	r, ok := m.core.Get(key)
	if !ok {
		return nil, false
	}
	return r.obj, true
}

// List implements cache.Store. What it returns belongs to the caller.
func (m *mirror) List() []any { return list(m, &m.objects, objectsOf) }

func objectsOf(snap store.Snapshot[record], chunk int) []any {
	records := snap.Chunk(chunk, nil)
	objs := make([]any, len(records))
	for i, r := range records {
		objs[i] = r.obj
	}
	return objs
}

func (m *mirror) ListKeys() []string {
	return list(m, &m.keys, store.Snapshot[record].ChunkKeys)
}

// list returns a copy of a listing. It reads the chunks that have changed since the last call.
func list[E any](m *mirror, cached *atomic.Pointer[listing[E]], read func(store.Snapshot[record], int) []E) []E {
	l := current(m, cached, read)
	all := make([]E, 0, l.size)
	for _, chunk := range l.chunks {
		all = append(all, chunk...)
	}
	return all
}

func current[E any](m *mirror, cached *atomic.Pointer[listing[E]], read func(store.Snapshot[record], int) []E) (l *listing[E]) {
	m.core.View(func(snap store.Snapshot[record]) { l = currentAt(snap, cached, read) })
	return l
}

func currentAt[E any](snap store.Snapshot[record], cached *atomic.Pointer[listing[E]], read func(store.Snapshot[record], int) []E) *listing[E] {
	was := cached.Load()
	if was != nil && was.revision >= snap.Revision() {
		return was
	}
	is := &listing[E]{revision: snap.Revision(), size: snap.Len(), chunks: make([][]E, snap.Chunks())}
	for i := range is.chunks {
		if was != nil && i < len(was.chunks) && !snap.Changed(i, was.revision) {
			is.chunks[i] = was.chunks[i]
		} else {
			is.chunks[i] = read(snap, i)
		}
	}
	cached.CompareAndSwap(was, is) // or another reader was faster
	return is
}

func (m *mirror) AddIndexers(newIndexers cache.Indexers) error {
	m.adding.Lock()
	defer m.adding.Unlock()
	old := m.indexes.Load()
	if old == nil {
		old = &mirrorIndexes{}
	}
	funcs, err := withIndexers(old.funcs, newIndexers)
	if err != nil {
		return err
	}
	next := &mirrorIndexes{funcs, map[string]*store.Index[record, string]{}}
	maps.Copy(next.byName, old.byName)
	// The view is there when an index function panics, as in client-go.
	defer m.indexes.Store(next)
	return m.edit(func(s *store.Store[record]) error {
		for _, name := range slices.Sorted(maps.Keys(newIndexers)) {
			if f := newIndexers[name]; f != nil {
				next.byName[name] = indexOf(name, f)
				s.AddIndex(next.byName[name])
			}
		}
		return nil
	})
}

// withIndexers returns a map with the indexers of both. The words of the error are client-go's.
func withIndexers(old, more cache.Indexers) (cache.Indexers, error) {
	if both := sets.KeySet(old).Intersection(sets.KeySet(more)); both.Len() > 0 {
		return nil, fmt.Errorf("indexer conflict: %v", both)
	}
	funcs := cache.Indexers{}
	maps.Copy(funcs, old)
	maps.Copy(funcs, more)
	return funcs, nil
}

// indexError is what client-go panics with when an index function fails.
func indexError(key, index string, err error) error {
	return fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", key, index, err)
}

// indexOf makes an index of an index function.
func indexOf(name string, f cache.IndexFunc) *store.Index[record, string] {
	return store.NewMultiIndex(name, func(r record, add func(string)) error {
		values, err := f(r.obj)
		if err != nil {
			return err
		}
		for _, value := range values {
			add(value)
		}
		return nil
	})
}

func (m *mirror) GetIndexers() cache.Indexers { return m.indexes.Load().funcs }

// named returns an index by its name.
func (m *mirror) named(name string) (*store.Index[record, string], error) {
	if x := m.indexes.Load().byName[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // as client-go says it
}

func (m *mirror) ByIndex(indexName, indexedValue string) ([]any, error) {
	x, err := m.named(indexName)
	if err != nil {
		return nil, err
	}
	var found []any
	m.core.View(func(snap store.Snapshot[record]) {
		found = make([]any, 0, x.Size(snap, indexedValue))
		for r := range x.Get(snap, indexedValue) {
			found = append(found, r.obj)
		}
	})
	return found, nil
}

func (m *mirror) Index(indexName string, obj any) ([]any, error) {
	x, err := m.named(indexName)
	if err != nil {
		return nil, err
	}
	switch values, err := m.GetIndexers()[indexName](obj); {
	case err != nil:
		return nil, err
	case len(values) == 1: // mostly; Like has to look out for objects that it has seen
		return m.ByIndex(indexName, values[0])
	}
	found := []any{}
	m.core.View(func(snap store.Snapshot[record]) {
		for r := range x.Like(snap, &box{obj}) {
			found = append(found, r.obj)
		}
	})
	return found, nil
}

func (m *mirror) IndexKeys(indexName, indexedValue string) ([]string, error) {
	x, err := m.named(indexName)
	if err != nil {
		return nil, err
	}
	var keys []string
	m.core.View(func(snap store.Snapshot[record]) { keys = x.ObjectKeys(snap, indexedValue) })
	slices.Sort(keys)
	return keys, nil
}

func (m *mirror) ListIndexFuncValues(indexName string) []string {
	values := make([]string, 0, 64)
	if x, err := m.named(indexName); err == nil {
		m.core.View(func(snap store.Snapshot[record]) { values = slices.AppendSeq(values, x.Keys(snap)) })
	}
	return values
}
