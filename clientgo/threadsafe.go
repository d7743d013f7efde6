package clientgo

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
)

// NewThreadSafeStore is client-go's constructor of that name. What it returns has
// transactions too (cache.ThreadSafeStoreWithTransaction).
//
// The indices are where client-go's own store would keep its index; Tarn's keeps it
// elsewhere, and what a program put in there is ignored.
func NewThreadSafeStore(indexers cache.Indexers, indices cache.Indices, opts ...cache.ThreadSafeStoreOption) cache.ThreadSafeStore {
	s := newThreadSafe(indexers)
	if len(opts) > 0 {
		s.gauge = cache.NewThreadSafeStore(cache.Indexers{}, cache.Indices{}, opts...)
	}
	return s
}

// gauge is a store of client-go's that holds nothing. The options of a store are
// functions of client-go's own type, so one of those is made with them, and told each
// version: its metric is then the right one.
type gauge interface{ Bookmark(rv string) }

// threadSafe is a cache.ThreadSafeStoreWithTransaction. A list, and what an index has for a
// value, are of one moment, and copied without a lock; a Get takes none at all, unless a
// batch of several writes is going on: of that it sees all or nothing, as in client-go.
// Who has seen a write by one method sees it by all others.
//
// store.Store is not under it. Programs of client-go read by a text, and get slices that
// are theirs; they have no snapshots, for which a store.Store has its objects in a tree. A
// hash table and slices are faster at what they do, and in a write that changes no index;
// docs/decisions/0011-clientgo.md has the figures.
type threadSafe struct {
	gauge    gauge
	contents atomic.Pointer[contents] // replaced by what replaces all objects
	batches  atomic.Uint64            // odd while several objects are written as one

	mu   sync.Mutex // of writers, and of readers who make a view; guards what follows
	rv   string
	text []byte // where keys are put together
}

func newThreadSafe(indexers cache.Indexers) *threadSafe {
	s := &threadSafe{}
	s.contents.Store(newContents())
	if err := s.AddIndexers(indexers); err != nil {
		panic(err) // there were none to be in conflict with
	}
	return s
}

// Add implements cache.ThreadSafeStore.
func (s *threadSafe) Add(key string, obj any) { s.Update(key, obj) }

// Update implements cache.ThreadSafeStore.
func (s *threadSafe) Update(key string, obj any) {
	version, versioned := versionFrom(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, obj, key)
	if versioned {
		s.moved(version)
	}
}

// set stores an object. The caller has the lock. A key that is kept is put together if it
// is not given.
func (s *threadSafe) set(key string, obj any, kept string) {
	c := s.contents.Load()
	if at := c.objects.find(key); at != nil {
		if err := c.update(at, obj, false); err != nil {
			panic(err) // nothing has been stored
		}
		return
	}
	var room few
	values, err := evaluate(room[:0], c.indexes, key, obj, false)
	if err != nil {
		panic(err)
	}
	if kept == "" {
		kept = strings.Clone(key)
	}
	c.insert(kept, obj, values)
}

// textOf puts a key together. The caller has the lock, and the text until it unlocks or
// asks for another.
func (s *threadSafe) textOf(key object.Key) string {
	s.text = appendKey(s.text[:0], key)
	return unsafe.String(unsafe.SliceData(s.text), len(s.text))
}

func appendKey(text []byte, key object.Key) []byte {
	if key.Namespace != "" {
		text = append(text, key.Namespace...)
		text = append(text, '/')
	}
	return append(text, key.Name...)
}

// Delete implements cache.ThreadSafeStore.
func (s *threadSafe) Delete(key string) { s.DeleteWithObject(key, nil) }

// DeleteWithObject implements cache.ThreadSafeStore.
func (s *threadSafe) DeleteWithObject(key string, obj any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(key, obj)
}

// remove takes an object out. The caller has the lock.
func (s *threadSafe) remove(key string, obj any) {
	c := s.contents.Load()
	if at := c.objects.find(key); at != nil {
		c.remove(at)
	}
	if obj == nil {
		return
	}
	if version, ok := versionFrom(obj); ok {
		s.moved(version)
	}
}

// Replace implements cache.ThreadSafeStore.
func (s *threadSafe) Replace(items map[string]any, version string) {
	s.replace(len(items), version, func(yield func(string, any) bool) {
		for key, obj := range items {
			if !yield(key, obj) {
				return
			}
		}
	})
}

// replace has the store hold n items and nothing else. Until that is complete readers have
// what there was before, and do not wait.
func (s *threadSafe) replace(n int, version string, items func(yield func(string, any) bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	next := s.contents.Load().empty(n)
	for key, obj := range items {
		if err := next.put(key, obj); err != nil {
			failed = err
		}
	}
	s.contents.Store(next)
	s.moved(version)
	if failed != nil {
		panic(failed)
	}
}

// put stores an object, also where an index function failed, and keeps the key.
func (c *contents) put(key string, obj any) error {
	if at := c.objects.find(key); at != nil {
		return c.update(at, obj, true)
	}
	var room few
	values, err := evaluate(room[:0], c.indexes, key, obj, true)
	c.insert(key, obj, values)
	return err
}

// Transaction implements cache.ThreadSafeStoreWithTransaction.
func (s *threadSafe) Transaction(txns ...cache.ThreadSafeStoreTransaction) {
	if len(txns) > 0 {
		s.commit(txns)
	}
}

// commit makes writes as one, in their order. One of an unknown type is none.
func (s *threadSafe) commit(txns []cache.ThreadSafeStoreTransaction) {
	version, ok := versionFrom(txns[len(txns)-1].Object)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches.Add(1)
	defer s.batches.Add(1)
	c := s.contents.Load()
	var failed error
	for i := range txns {
		switch txn := &txns[i]; txn.Type {
		case cache.TransactionTypeAdd, cache.TransactionTypeUpdate:
			if err := c.put(txn.Key, txn.Object); err != nil {
				failed = err
			}
		case cache.TransactionTypeDelete:
			if at := c.objects.find(txn.Key); at != nil {
				c.remove(at)
			}
		}
	}
	if ok {
		s.moved(version)
	}
	if failed != nil {
		panic(failed)
	}
}

// moved notes where the store stands. The caller has the lock.
func (s *threadSafe) moved(version string) {
	s.rv = version
	if s.gauge != nil {
		s.gauge.Bookmark(version)
	}
}

// Bookmark implements cache.ThreadSafeStore.
func (s *threadSafe) Bookmark(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved(rv)
}

// LastStoreSyncResourceVersion implements cache.ThreadSafeStore. As in client-go, it is
// empty where the feature AtomicFIFO is off.
func (s *threadSafe) LastStoreSyncResourceVersion() string {
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}

// Get implements cache.ThreadSafeStore.
func (s *threadSafe) Get(key string) (item any, exists bool) {
	if before := s.batches.Load(); before%2 == 0 {
		item, exists = s.contents.Load().objects.get(key)
		if s.batches.Load() == before {
			return item, exists
		}
	}
	s.mu.Lock() // a batch is between its first write and its last, or was
	defer s.mu.Unlock()
	return s.contents.Load().objects.get(key)
}

// getKey is Get of a key that need not be put together for long.
func (s *threadSafe) getKey(key object.Key) (item any, exists bool) {
	var room [128]byte
	text := appendKey(room[:0], key)
	return s.Get(unsafe.String(unsafe.SliceData(text), len(text)))
}

// view returns what is in a roll, which the caller may read and not change.
func (s *threadSafe) view(r *roll) []chunk {
	if v := r.view.Load(); v != nil {
		return *v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.share()
}

// everything returns all objects, which the caller may read and not change.
func (s *threadSafe) everything() []chunk { return s.view(s.contents.Load().all) }

// List implements cache.ThreadSafeStore.
func (s *threadSafe) List() []any { return objectsOf(s.everything()) }

// ListKeys implements cache.ThreadSafeStore.
func (s *threadSafe) ListKeys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return keysOf(s.contents.Load().all)
}

// keysOf returns the keys of a roll. The caller has the lock.
func keysOf(r *roll) []string {
	keys := make([]string, len(r.who))
	for i, e := range r.who {
		keys[i] = e.slot.key
	}
	return keys
}

// Resync implements cache.ThreadSafeStore: there is nothing to do.
func (s *threadSafe) Resync() error { return nil }
