package clientgo

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
)

// NewThreadSafeStore is client-go's constructor of that name. What it returns has transactions
// too (cache.ThreadSafeStoreWithTransaction).
//
// In client-go the indices are where the store keeps its indexes. Here they are ignored.
func NewThreadSafeStore(indexers cache.Indexers, _ cache.Indices, opts ...cache.ThreadSafeStoreOption) cache.ThreadSafeStore {
	s := newThreadSafe(indexers)
	if len(opts) > 0 {
		s.gauge = cache.NewThreadSafeStore(cache.Indexers{}, cache.Indices{}, opts...)
	}
	return s
}

// gauge is an empty store of client-go's own, made with the options that a program passes, which
// are functions of a type that only client-go has. It sets the metric for each resource version
// that it receives.
type gauge interface{ Bookmark(rv string) }

// threadSafe is a cache.ThreadSafeStoreWithTransaction: a table under a lock.
//
// store.Store is not under it. Programs that use a store by itself write objects one at a time and
// read them by strings. On a store.Store each write is a transaction with a revision, and runs at
// 0.4 to 1 times client-go's speed; docs/decisions/0011-clientgo.md has the figures.
type threadSafe struct {
	gauge gauge // nil without options

	mu    sync.RWMutex // guards what follows
	table table
	rv    string
}

func newThreadSafe(indexers cache.Indexers) *threadSafe {
	return &threadSafe{table: newTable(maps.Clone(indexers), 0)}
}

// Add implements cache.ThreadSafeStore.
func (s *threadSafe) Add(key string, obj any) { s.Update(key, obj) }

// Update implements cache.ThreadSafeStore. It panics if an index function fails, and has then
// stored nothing.
func (s *threadSafe) Update(key string, obj any) {
	version, versioned := versionFrom(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.table.put(key, obj); err != nil {
		panic(err)
	}
	if versioned {
		s.setVersion(version)
	}
}

// Delete implements cache.ThreadSafeStore.
func (s *threadSafe) Delete(key string) { s.DeleteWithObject(key, nil) }

// DeleteWithObject implements cache.ThreadSafeStore.
func (s *threadSafe) DeleteWithObject(key string, obj any) {
	version, versioned := versionFrom(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.remove(key)
	if versioned {
		s.setVersion(version)
	}
}

// Replace implements cache.ThreadSafeStore. It panics if an index function fails, and has then
// replaced nothing.
func (s *threadSafe) Replace(items map[string]any, version string) {
	s.replace(len(items), maps.All(items), version)
}

func (s *threadSafe) replace(n int, items iter.Seq2[string, any], version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = must(tableOf(s.table.funcs, n, items))
	s.setVersion(version)
}

// Transaction implements cache.ThreadSafeStoreWithTransaction. It panics if an index function
// fails, and has then made the writes before that one.
func (s *threadSafe) Transaction(txns ...cache.ThreadSafeStoreTransaction) {
	if len(txns) == 0 {
		return
	}
	version, versioned := versionFrom(txns[len(txns)-1].Object)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range txns {
		switch txn := &txns[i]; txn.Type {
		case cache.TransactionTypeAdd, cache.TransactionTypeUpdate:
			if err := s.table.put(txn.Key, txn.Object); err != nil {
				panic(err)
			}
		case cache.TransactionTypeDelete:
			s.table.remove(txn.Key)
		}
	}
	if versioned {
		s.setVersion(version)
	}
}

// setVersion notes the resource version of the content. The caller has the lock.
func (s *threadSafe) setVersion(version string) {
	s.rv = version
	if s.gauge != nil {
		s.gauge.Bookmark(version)
	}
}

// Bookmark implements cache.ThreadSafeStore.
func (s *threadSafe) Bookmark(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setVersion(rv)
}

// LastStoreSyncResourceVersion implements cache.ThreadSafeStore. As in client-go, it is
// empty where the feature AtomicFIFO is off.
func (s *threadSafe) LastStoreSyncResourceVersion() string {
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return ""
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rv
}

// Get implements cache.ThreadSafeStore.
func (s *threadSafe) Get(key string) (item any, exists bool) {
	s.mu.RLock()
	row, exists := s.table.rows[key]
	if exists {
		item = s.table.objs[row]
	}
	s.mu.RUnlock()
	return item, exists
}

// List implements cache.ThreadSafeStore.
func (s *threadSafe) List() []any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append(make([]any, 0, len(s.table.objs)), s.table.objs...)
}

// ListKeys implements cache.ThreadSafeStore.
func (s *threadSafe) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append(make([]string, 0, len(s.table.keys)), s.table.keys...)
}

// Resync implements cache.ThreadSafeStore: there is nothing to do.
func (s *threadSafe) Resync() error { return nil }

// AddIndexers implements cache.ThreadSafeStore. It panics if an index function fails, and has then
// added none.
func (s *threadSafe) AddIndexers(newIndexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	funcs, err := withIndexers(s.table.funcs, newIndexers)
	if err != nil {
		return err
	}
	s.table = must(tableOf(funcs, len(s.table.keys), s.table.all))
	return nil
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

// GetIndexers implements cache.ThreadSafeStore.
func (s *threadSafe) GetIndexers() cache.Indexers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.funcs
}

// ByIndex implements cache.ThreadSafeStore.
func (s *threadSafe) ByIndex(indexName, indexedValue string) ([]any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, err := s.table.named(indexName)
	if err != nil {
		return nil, err
	}
	return pick(s.table.objs, x.rows(indexedValue)), nil
}

// Index implements cache.ThreadSafeStore.
func (s *threadSafe) Index(indexName string, obj any) ([]any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, err := s.table.named(indexName)
	if err != nil {
		return nil, err
	}
	values, err := x.f(obj)
	if err != nil {
		return nil, err
	}
	return pick(s.table.objs, x.rows(values...)), nil
}

// IndexKeys implements cache.ThreadSafeStore.
func (s *threadSafe) IndexKeys(indexName, indexedValue string) ([]string, error) {
	keys, err := s.unsortedKeys(indexName, indexedValue)
	slices.Sort(keys)
	return keys, err
}

func (s *threadSafe) unsortedKeys(indexName, indexedValue string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, err := s.table.named(indexName)
	if err != nil {
		return nil, err
	}
	return pick(s.table.keys, x.rows(indexedValue)), nil
}

// ListIndexFuncValues implements cache.ThreadSafeStore.
func (s *threadSafe) ListIndexFuncValues(indexName string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, err := s.table.named(indexName)
	if err != nil {
		return []string{}
	}
	values := make([]string, 0, len(x.sets))
	for value := range x.sets {
		values = append(values, value)
	}
	return values
}
