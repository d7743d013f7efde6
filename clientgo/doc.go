// Package clientgo runs programs that are written for client-go on Tarn. Its constructors have the
// names and parameters of client-go's (v0.37), and their results satisfy client-go's interfaces. A
// program changes the call that makes its informer, and keeps its handlers, listers, indexers, queues
// and tests.
//
//   - informer := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, resync, indexers)
//   - informer := clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, resync, indexers)
//
// The constructors, and the part of Tarn under each:
//
//   - [NewSharedIndexInformer]: an informer.Informer in verbatim mode. Handlers are subscriptions
//     that receive every change, and its indexer is a view of its store.Store. [NewInformer] and
//     its siblings are one with a single handler.
//   - [NewListWatch] makes a cache.ListerWatcher of a wire.Client.
//
// # Where the bytes come from
//
// A cache.ListerWatcher is two functions, and client-go's clients decode whole bodies inside them.
// With the result of [NewListWatch] an informer uses Tarn's client instead: it decodes bodies while
// they arrive, on all cores, and does not decode objects again that the store holds.
//
// # How it behaves
//
// It behaves as client-go does. A new UID under the same name is an Update, and so is each object of
// a relist. Every handler is called for every change, one at a time. A deletion that was not observed
// is a cache.DeletedFinalStateUnknown, by value. A handler that panics ends the program unless
// apimachinery's runtime.ReallyCrash is false.
//
// docs/clientgo-differences.md lists the remaining differences, and docs/clientgo-behaviours.md the
// test for each of client-go's behaviours.
package clientgo
