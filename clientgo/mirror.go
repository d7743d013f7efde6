package clientgo

import (
	"context"
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
	gauge   gauge // nil without metrics
	indexes atomic.Pointer[mirrorIndexes]
	listed  atomic.Pointer[listing]

	// editing and editFailed are guarded by the core's lock of writers.
	editing    bool
	editFailed *store.IndexError // the last failure of an edit
	failed     *store.IndexError // the last failure of a batch; of the goroutine that applies batches

	adding sync.Mutex // AddIndexers take turns; taken before the core's locks
	mu     sync.Mutex // guards rv; taken inside of them
	rv     string
}

// mirrorIndexes never change; AddIndexers replaces them.
type mirrorIndexes struct {
	funcs  cache.Indexers
	byName map[string]*store.Index[record, string]
}

// listing is everything at one revision of the store, in the store's chunks. It never changes; a
// later one shares the chunks that are the same.
type listing struct {
	revision uint64
	size     int
	chunks   [][]any
}

// indexFailed notes that an index function failed.
func (m *mirror) indexFailed(err *store.IndexError) {
	if m.editing {
		m.editFailed = err
	} else {
		m.failed = err
	}
}

// failure says what client-go panics with when an index function fails.
func failure(err *store.IndexError) error {
	return fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", err.Key, err.Index, err.Cause)
}

// edit has f write to the store. It panics where an index function fails, as client-go does.
func (m *mirror) edit(f func(*store.Store[record])) {
	var failed *store.IndexError
	m.core.Edit(func(s *store.Store[record]) {
		m.editing = true
		f(s)
		failed, m.editFailed, m.editing = m.editFailed, nil, false
	})
	if failed != nil {
		panic(failure(failed))
	}
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
	if m.failed != nil {
		// A mirror cannot refuse what the server has, nor end the program for it.
		utilruntime.HandleErrorWithContext(ctx, failure(m.failed), "Unable to index an object of the informer")
		m.failed = nil
	}
}

// Bookmark implements cache.Store.
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

// Add implements cache.Store.
func (m *mirror) Add(obj any) error {
	if _, err := keyOf(obj); err != nil {
		return err
	}
	m.edit(func(s *store.Store[record]) {
		err := s.Set(&box{obj})
		m.editFailed, _ = err.(*store.IndexError)
		if version, ok := versionFrom(obj); ok && err == nil {
			m.Bookmark(version)
		}
	})
	return nil
}

// Update implements cache.Store.
func (m *mirror) Update(obj any) error { return m.Add(obj) }

// Delete implements cache.Store.
func (m *mirror) Delete(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	m.edit(func(s *store.Store[record]) {
		s.Delete(key)
		if version, ok := versionFrom(obj); ok {
			m.Bookmark(version)
		}
	})
	return nil
}

// Replace implements cache.Store.
func (m *mirror) Replace(list []any, version string) error {
	records := make([]record, 0, len(list))
	for _, obj := range list {
		if _, err := keyOf(obj); err != nil {
			return err
		}
		records = append(records, &box{obj})
	}
	m.edit(func(s *store.Store[record]) {
		_ = s.Replace(object.Version(version), records...) // all have keys
		m.Bookmark(version)
	})
	return nil
}

// Transaction implements cache.TransactionStore. As in client-go, what has no key is left
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
	m.edit(func(s *store.Store[record]) {
		_, _ = s.Apply(&batch, nil) // all have keys
		if n := len(batch.Changes); n > 0 {
			if version, ok := versionFrom(batch.Changes[n-1].Value.Object.obj); ok {
				m.Bookmark(version)
			}
		}
	})
	if len(errs) == 0 {
		return nil
	}
	return &cache.TransactionError{SuccessfulIndices: done, TotalTransactions: len(txns), Errors: errs}
}

// Get implements cache.Store.
func (m *mirror) Get(obj any) (item any, exists bool, err error) {
	key, err := keyOf(obj)
	if err != nil {
		return nil, false, err
	}
	item, exists = m.get(key)
	return item, exists, nil
}

// GetByKey implements cache.Store.
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
func (m *mirror) List() []any {
	l := m.present()
	all := make([]any, 0, l.size)
	for _, chunk := range l.chunks {
		all = append(all, chunk...)
	}
	return all
}

// present returns everything, brought up to date.
func (m *mirror) present() *listing {
	snap := m.core.Pin()
	defer snap.Release()
	was := m.listed.Load()
	if was != nil && was.revision >= snap.Revision() {
		return was
	}
	is := &listing{revision: snap.Revision(), size: snap.Len(), chunks: make([][]any, snap.Chunks())}
	var some []record
	for i := range is.chunks {
		if was != nil && i < len(was.chunks) && !snap.Changed(i, was.revision) {
			is.chunks[i] = was.chunks[i]
			continue
		}
		some = snap.Chunk(i, some[:0])
		objs := make([]any, len(some))
		for j, r := range some {
			objs[j] = r.obj
		}
		is.chunks[i] = objs
	}
	m.listed.CompareAndSwap(was, is) // or another reader was faster
	return is
}

// ListKeys implements cache.Store.
func (m *mirror) ListKeys() []string {
	snap := m.core.Pin()
	defer snap.Release()
	return snap.KeyTexts()
}

// AddIndexers implements cache.Indexer.
func (m *mirror) AddIndexers(newIndexers cache.Indexers) error {
	m.adding.Lock()
	defer m.adding.Unlock()
	next := &mirrorIndexes{cache.Indexers{}, map[string]*store.Index[record, string]{}}
	if old := m.indexes.Load(); old != nil {
		if both := sets.KeySet(old.funcs).Intersection(sets.KeySet(newIndexers)); both.Len() > 0 {
			return fmt.Errorf("indexer conflict: %v", both)
		}
		maps.Copy(next.funcs, old.funcs)
		maps.Copy(next.byName, old.byName)
	}
	maps.Copy(next.funcs, newIndexers)
	// The view is there when an index function panics, as in client-go.
	defer m.indexes.Store(next)
	m.edit(func(s *store.Store[record]) {
		for _, name := range slices.Sorted(maps.Keys(newIndexers)) {
			if f := newIndexers[name]; f != nil {
				next.byName[name] = indexOf(name, f)
				s.AddIndex(next.byName[name])
			}
		}
	})
	return nil
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

// GetIndexers implements cache.Indexer.
func (m *mirror) GetIndexers() cache.Indexers { return m.indexes.Load().funcs }

// named returns an index by its name; the words of the error are client-go's.
func (m *mirror) named(name string) (*store.Index[record, string], error) {
	if x := m.indexes.Load().byName[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // as client-go says it
}

// ByIndex implements cache.Indexer.
func (m *mirror) ByIndex(indexName, indexedValue string) ([]any, error) {
	x, err := m.named(indexName)
	if err != nil {
		return nil, err
	}
	snap := m.core.Pin()
	defer snap.Release()
	found := make([]any, 0, x.Size(snap, indexedValue))
	for r := range x.Get(snap, indexedValue) {
		found = append(found, r.obj)
	}
	return found, nil
}

// Index implements cache.Indexer.
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
	snap := m.core.Pin()
	defer snap.Release()
	found := []any{}
	for r := range x.Like(snap, &box{obj}) {
		found = append(found, r.obj)
	}
	return found, nil
}

// IndexKeys implements cache.Indexer.
func (m *mirror) IndexKeys(indexName, indexedValue string) ([]string, error) {
	found, err := m.ByIndex(indexName, indexedValue)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(found))
	for _, obj := range found {
		if key, err := keyOf(obj); err == nil {
			keys = append(keys, key.String())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// ListIndexFuncValues implements cache.Indexer.
func (m *mirror) ListIndexFuncValues(indexName string) []string {
	values := []string{}
	if x, err := m.named(indexName); err == nil {
		snap := m.core.Pin()
		defer snap.Release()
		values = slices.AppendSeq(values, x.Keys(snap))
	}
	return values
}
