package clientgo

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
)

// NewStore is client-go's constructor of that name.
func NewStore(keyFunc cache.KeyFunc, opts ...cache.StoreOption) cache.Store {
	return newIndexer(keyFunc, cache.Indexers{}, opts...)
}

// NewIndexer is client-go's constructor of that name. What it returns has transactions
// too (cache.TransactionStore).
func NewIndexer(keyFunc cache.KeyFunc, indexers cache.Indexers, opts ...cache.StoreOption) cache.Indexer {
	return newIndexer(keyFunc, indexers, opts...)
}

// indexer is a cache.Indexer: a [threadSafe] with a key function.
type indexer struct {
	*threadSafe
	keyFunc cache.KeyFunc
	// byMeta: the key function is one of client-go's own, which need not put the key
	// together for us to take it apart.
	byMeta  bool
	options *optioned // nil without options
}

func newIndexer(keyFunc cache.KeyFunc, indexers cache.Indexers, opts ...cache.StoreOption) *indexer {
	c := &indexer{threadSafe: newThreadSafe(indexers), keyFunc: keyFunc, byMeta: isMetaKey(keyFunc)}
	if len(opts) > 0 {
		c.options = &optioned{store: cache.NewStore(func(any) (string, error) { return onlyKey, nil }, opts...)}
		c.gauge = c.options.store
	}
	return c
}

// isMetaKey reports whether a key function is known to give namespace and name.
func isMetaKey(f cache.KeyFunc) bool {
	if f == nil {
		return false
	}
	p := reflect.ValueOf(f).Pointer()
	return p == reflect.ValueOf(cache.MetaNamespaceKeyFunc).Pointer() ||
		p == reflect.ValueOf(cache.DeletionHandlingMetaNamespaceKeyFunc).Pointer()
}

// optioned is a store of client-go's own, made with the options of ours, which are
// functions of a type that only client-go has. It has room for one object, which it
// transforms if an option says so; and it is the [gauge].
type optioned struct {
	mu    sync.Mutex // one object at a time is in the store
	store cache.Store
}

const onlyKey = "object"

func (o *optioned) transform(obj any) (any, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.store.Add(obj); err != nil {
		return nil, err // in client-go's words
	}
	obj, _, err := o.store.GetByKey(onlyKey)
	return obj, err
}

// key returns the key of an object.
func (c *indexer) key(obj any) (object.Key, error) {
	if c.byMeta {
		if m, ok := obj.(metav1.Object); ok {
			return metaKey(m), nil
		}
	}
	text, err := c.keyFunc(obj)
	if err != nil {
		return object.Key{}, cache.KeyError{Obj: obj, Err: err}
	}
	return object.RawKey(text), nil
}

// transformed returns what to store for an object.
func (c *indexer) transformed(obj any) (any, error) {
	if c.options == nil {
		return obj, nil
	}
	return c.options.transform(obj)
}

// Add implements cache.Store.
func (c *indexer) Add(obj any) error {
	key, err := c.key(obj)
	if err != nil {
		return err
	}
	if obj, err = c.transformed(obj); err != nil {
		return err
	}
	version, versioned := versionFrom(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.textOf(key), obj, "")
	if versioned {
		c.moved(version)
	}
	return nil
}

// Update implements cache.Store.
func (c *indexer) Update(obj any) error { return c.Add(obj) }

// Delete implements cache.Store.
func (c *indexer) Delete(obj any) error {
	key, err := c.key(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.textOf(key), obj)
	return nil
}

// Get implements cache.Store.
func (c *indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := c.key(obj)
	if err != nil {
		return nil, false, err
	}
	item, exists = c.getKey(key)
	return item, exists, nil
}

// GetByKey implements cache.Store.
func (c *indexer) GetByKey(key string) (item any, exists bool, err error) {
	item, exists = c.threadSafe.Get(key)
	return item, exists, nil
}

// Replace implements cache.Store.
func (c *indexer) Replace(list []any, version string) error {
	records := make([]keyed, 0, len(list))
	for _, obj := range list {
		key, err := c.key(obj)
		if err != nil {
			return err
		}
		if obj, err = c.transformed(obj); err != nil {
			return err
		}
		records = append(records, keyed{key, obj})
	}
	c.replace(len(records), version, func(yield func(string, any) bool) {
		for i := range records {
			if !yield(records[i].key.String(), records[i].obj) {
				return
			}
		}
	})
	return nil
}

// Transaction implements cache.TransactionStore. As in client-go, what has no key is left
// out and reported, and nothing is transformed.
func (c *indexer) Transaction(txns ...cache.Transaction) *cache.TransactionError {
	keyed := make([]cache.ThreadSafeStoreTransaction, 0, len(txns))
	done := make([]int, 0, len(txns))
	var errs []error
	for i, txn := range txns {
		key, err := c.key(txn.Object)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, i)
		keyed = append(keyed, cache.ThreadSafeStoreTransaction{Transaction: txn, Key: key.String()})
	}
	c.threadSafe.Transaction(keyed...)
	if len(errs) == 0 {
		return nil
	}
	return &cache.TransactionError{SuccessfulIndices: done, TotalTransactions: len(txns), Errors: errs}
}
