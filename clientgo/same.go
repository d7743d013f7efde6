package clientgo

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/internal/callsite"
)

// Stores, DeltaFIFOs and reflectors by themselves are client-go's own: Tarn has nothing that a program
// with one of them would notice. They are here for programs that take all constructors from one package.
// An informer has Tarn's store, queue and reflector instead.

// NewStore is client-go's, with a store of client-go's.
func NewStore(keyFunc cache.KeyFunc, opts ...cache.StoreOption) cache.Store {
	return cache.NewStore(keyFunc, opts...)
}

// NewIndexer is client-go's, with a store of client-go's.
func NewIndexer(keyFunc cache.KeyFunc, indexers cache.Indexers, opts ...cache.StoreOption) cache.Indexer {
	return cache.NewIndexer(keyFunc, indexers, opts...)
}

// NewThreadSafeStore is client-go's, with a store of client-go's.
func NewThreadSafeStore(indexers cache.Indexers, indices cache.Indices, opts ...cache.ThreadSafeStoreOption) cache.ThreadSafeStore {
	return cache.NewThreadSafeStore(indexers, indices, opts...)
}

// DeltaFIFO is client-go's; delta.FIFO is one with types.
type DeltaFIFO = cache.DeltaFIFO

// NewDeltaFIFO is client-go's.
func NewDeltaFIFO(keyFunc cache.KeyFunc, knownObjects cache.KeyListerGetter) *DeltaFIFO {
	return NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: keyFunc, KnownObjects: knownObjects})
}

// NewDeltaFIFOWithOptions is client-go's.
func NewDeltaFIFOWithOptions(opts cache.DeltaFIFOOptions) *DeltaFIFO {
	return cache.NewDeltaFIFOWithOptions(opts)
}

// Reflector is client-go's; reflector.Reflector is Tarn's, for any object.Sink.
type Reflector = cache.Reflector

// NewReflector is client-go's.
func NewReflector(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resyncPeriod time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{ResyncPeriod: resyncPeriod})
}

// NewNamedReflector is client-go's.
func NewNamedReflector(name string, lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resyncPeriod time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{Name: name, ResyncPeriod: resyncPeriod})
}

// NewNamespaceKeyedIndexerAndReflector is client-go's.
func NewNamespaceKeyedIndexerAndReflector(lw cache.ListerWatcher, expectedType any, resyncPeriod time.Duration) (cache.Indexer, *Reflector) {
	indexer := NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return indexer, NewReflector(lw, expectedType, indexer, resyncPeriod)
}

// NewReflectorWithOptions is client-go's. A reflector without a name is called by where it is made.
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	if options.Name == "" {
		options.Name = callsite.Outside("github.com/tarnproject/tarn/clientgo")
	}
	return cache.NewReflectorWithOptions(lw, expectedType, store, options)
}
