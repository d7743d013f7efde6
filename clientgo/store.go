package clientgo

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// NewStore is client-go's constructor of that name.
func NewStore(keyFunc cache.KeyFunc, opts ...cache.StoreOption) cache.Store {
	return newIndexer(keyFunc, cache.Indexers{}, opts...)
}

// NewIndexer is client-go's constructor of that name. What it returns has transactions too
// (cache.TransactionStore).
func NewIndexer(keyFunc cache.KeyFunc, indexers cache.Indexers, opts ...cache.StoreOption) cache.Indexer {
	return newIndexer(keyFunc, indexers, opts...)
}

// indexer is a cache.Indexer: a [threadSafe] with a key function.
type indexer struct {
	*threadSafe
	keyFunc cache.KeyFunc
	options *optioned // nil without options
}

func newIndexer(keyFunc cache.KeyFunc, indexers cache.Indexers, opts ...cache.StoreOption) *indexer {
	c := &indexer{threadSafe: newThreadSafe(indexers), keyFunc: keyFunc}
	if len(opts) > 0 {
		c.options = &optioned{store: cache.NewStore(func(any) (string, error) { return onlyKey, nil }, opts...)}
		c.gauge = c.options.store
	}
	return c
}

// optioned is a store of client-go's own, made with the options that a program passes, which are
// functions of a type that only client-go has. It holds one object at a time, to transform it if an
// option says so; and it is the [gauge].
type optioned struct {
	mu    sync.Mutex // held from Add to GetByKey
	store cache.Store
}

const onlyKey = "object"

func (o *optioned) transform(obj any) (any, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.store.Add(obj); err != nil {
		return nil, err
	}
	obj, _, err := o.store.GetByKey(onlyKey)
	return obj, err
}

// key returns the key of an object.
func (c *indexer) key(obj any) (string, error) {
	key, err := c.keyFunc(obj)
	if err != nil {
		return "", cache.KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// keyed returns the key of an object and what to store for it.
func (c *indexer) keyed(obj any) (string, any, error) {
	key, err := c.key(obj)
	if err == nil && c.options != nil {
		obj, err = c.options.transform(obj)
	}
	return key, obj, err
}

// Add implements cache.Store.
func (c *indexer) Add(obj any) error {
	key, obj, err := c.keyed(obj)
	if err == nil {
		c.threadSafe.Update(key, obj)
	}
	return err
}

// Update implements cache.Store.
func (c *indexer) Update(obj any) error { return c.Add(obj) }

// Delete implements cache.Store.
func (c *indexer) Delete(obj any) error {
	key, err := c.key(obj)
	if err == nil {
		c.threadSafe.DeleteWithObject(key, obj)
	}
	return err
}

// Get implements cache.Store.
func (c *indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := c.key(obj)
	if err != nil {
		return nil, false, err
	}
	return c.GetByKey(key)
}

// GetByKey implements cache.Store.
func (c *indexer) GetByKey(key string) (item any, exists bool, err error) {
	item, exists = c.threadSafe.Get(key)
	return item, exists, nil
}

// Replace implements cache.Store.
func (c *indexer) Replace(list []any, version string) error {
	keys, objs := make([]string, len(list)), make([]any, len(list))
	for i, obj := range list {
		var err error
		if keys[i], objs[i], err = c.keyed(obj); err != nil {
			return err
		}
	}
	c.replace(len(list), func(yield func(string, any) bool) {
		for i, key := range keys {
			if !yield(key, objs[i]) {
				return
			}
		}
	}, version)
	return nil
}

// Transaction implements cache.TransactionStore. As in client-go, an object without a key is left
// out and reported, and no object is transformed.
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
		keyed = append(keyed, cache.ThreadSafeStoreTransaction{Transaction: txn, Key: key})
	}
	c.threadSafe.Transaction(keyed...)
	if len(errs) == 0 {
		return nil
	}
	return &cache.TransactionError{SuccessfulIndices: done, TotalTransactions: len(txns), Errors: errs}
}
