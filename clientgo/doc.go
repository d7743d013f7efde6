// Package clientgo puts Tarn under programs that are written for client-go: its
// constructors have the names and parameters of client-go's (v0.37), and what they return
// satisfies client-go's interfaces. A program changes the call that makes its store,
// informer or queue, and keeps everything else: handlers, listers, indexers, tests.
//
//   - informer := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, resync, indexers)
//   - informer := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, resync, indexers)
//
// The nouns, and what of Tarn is under each:
//
//   - [NewThreadSafeStore], [NewStore] and [NewIndexer]: a Go map, slices and a lock, for programs
//     that use a store by itself.
//   - [NewDeltaFIFO]: a delta.FIFO.
//   - [NewReflector]: a reflector.Reflector in front of any cache.ReflectorStore.
//   - [NewSharedIndexInformer]: an informer.Informer in verbatim mode. Handlers are subscriptions
//     that receive every change, and its indexer is a view of its store.Store. [NewInformer] and
//     its siblings are one with a single handler.
//   - [SourceOf] makes a reflector.Source of a cache.ListerWatcher; [NewListWatch] makes a
//     cache.ListerWatcher of a wire.Client.
//
// # Where the bytes come from
//
// A cache.ListerWatcher holds nothing but two closures, and client-go's clients decode
// whole bodies inside them; there an informer of this package can only be faster behind
// them. Give it what [NewListWatch] returns, and the wire is used directly: bodies are
// decoded while they arrive, on all cores, and objects that are held already are not
// decoded again.
//
// # How it behaves
//
// As client-go does and as its users' handlers expect: a new UID under the same name is an
// Update, so is each object of a relist, every handler is called for every change, one by one,
// deletions that were not observed come as a cache.DeletedFinalStateUnknown, by value, and a
// handler that panics ends the program unless apimachinery's runtime.ReallyCrash is off.
// [Behaviour] turns on what the rest of Tarn does better: a new UID is a deletion and an addition,
// relists report changes only, backlogs are bounded, a panic costs one event, and objects share
// equal parts.
// docs/clientgo-differences.md is the list of what is different all the same, and
// docs/clientgo-behaviours.md says which test holds which of client-go's behaviours.
package clientgo
