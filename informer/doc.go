// Package informer keeps a live mirror of a resource and shares it among any number of
// readers and subscribers. It connects the lower stages: a reflector lists and watches, a
// delta.Buffer queues changes, and a store holds the objects.
//
//	pods, err := informer.New(source, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{})
//	…
//	go pods.Run(ctx)
//	if err := pods.WaitSynced(ctx); err != nil {
//		return err // says why: "pods is forbidden: …"
//	}
//	pod, ok := pods.Get(object.Key{Namespace: "shop", Name: "web"})
//
// The types:
//
//   - [Informer] is the mirror. [Informer.Get], [Informer.View] and [Informer.Snapshot] read it
//     without blocking; indexes are queried with a snapshot.
//   - [Subscription] is one subscriber, in one of three forms: a [Handler] of functions
//     ([Informer.Subscribe]), a function that receives many changes at once
//     ([Informer.SubscribeBatch]), or a loop ([Informer.Events]).
//   - [Event] is a change as one subscriber receives it.
//   - [Writes] tracks this process's own writes, so that it can avoid reading older state.
//   - [Status] reports the state of an informer, its sources and its subscribers.
//
// # What subscribers receive
//
// A subscriber first receives the state at the time it subscribes, as additions marked
// Initial, and then every change, in order, without gaps or duplicates. It may subscribe
// before Run, during it, or in another subscriber's callback.
//
// Changes go to one bounded log that all subscribers read at their own pace, so a slow
// subscriber delays no other. A subscriber that falls off the end of the log is caught up with
// the difference between the last state it received and the current one. It then receives
// at most one change per key: an addition followed by updates is one addition, several updates
// are one update from the first old to the last new state, and an addition followed by a
// deletion is nothing. Deletions are then marked as final state unknown, with the last object
// that the subscriber received. So the cost of a blocked subscriber depends on the number of
// objects, not of events, and its lag is part of its status.
//
// A subscriber that needs each change sets SubOptions.EveryChange. It is never caught up, and its
// backlog is not bounded: it grows with the number of events and is shown in Status.Logged. Other
// subscribers are caught up as before.
//
// A subscriber that panics loses one event (in batches, one call). The panic is reported with the
// subscriber's name, and the subscriber continues.
//
// # Verbatim
//
// By default subscribers are called for changes only. The informer drops a listed object whose UID
// and version it already holds, an event that is not newer than what it holds, and the deletion of
// an object that it does not hold. A new UID under the same name is a deletion and an addition.
// With Options.Verbatim the informer stores and reports every event and every listed item as the
// source sends it, and the last one wins; see [store.Store.Apply] for the rules. Together with
// SubOptions.EveryChange these are the semantics of client-go's informers, on which package
// clientgo is built. Two limits remain: the reflector drops events that a server repeats or sends
// late, and a subscriber without EveryChange that falls behind is still caught up with the
// difference.
//
// # Reading your own writes
//
// The mirror follows the server, so it may lag behind a write that this process just made.
// [Informer.WaitFor] blocks until the mirror reaches a version, and [Writes] until it has this
// process's writes. Order is evidence, absence is not: a write counts as read when the mirror holds its
// key at that version or a later one, or is complete up to such a version. While nothing changes, the
// version advances only with the server's bookmarks, and the same holds for the version of the latest
// deletion, because deletions may share a version ([object.Mark]). A waiting reader therefore asks for a
// bookmark ([reflector.Reflector.Confirm]), which takes about a second. Writes does not wait for an
// object that is outside the selection, in quarantine or refused by the form: its reads return the cause.
//
// # Namespaces
//
// An informer mirrors everything that its Selection selects, with one list and watch. With
// Options.Namespaces it mirrors a set of namespaces, with one list and watch for each;
// [Informer.SetNamespaces] changes the set at any time. A snapshot's Marks are the version of each
// namespace. A namespace that is not mirrored, or not listed yet, has no mark.
//
// # Shards
//
// An informer with a Selection.Shard mirrors the objects whose UID or namespace has a hash in certain
// ranges, so that the replicas of a program can share the objects of a resource among them.
// [Informer.SetShard] changes the ranges at any time. Servers that support it (Kubernetes 1.36 with
// the feature gate ShardedListAndWatch) send only these objects. Otherwise the source drops the others
// before they are decoded: they cost network and a look at their bytes, but no memory.
//
// An object that is no longer in the shard is removed from the mirror as [object.Left]. That is not
// a deletion: a subscriber forgets the object, but must not clean up after it.
//
// # Memory
//
// By default objects are stored decoded. With store.Packed as Options.Form they are stored as bytes, compressed
// against what similar objects have in common, and decoded when they are read. The objects of a list are
// encoded as they arrive, so that the initial list needs hardly more memory than its result. With the object's
// own Marshal and the Decode of the stream.Source, they are stored as they are received: an object is
// decoded only if a subscriber, a reader or an index that does not declare what it reads needs it.
//
// Fields that are never needed, such as managedFields, are best dropped by the Source. An informer
// of metadata only is one whose Source yields metav1.PartialObjectMetadata. Options.Transform
// changes objects before they are stored. It owns each object until it returns; after that nothing
// writes to the object, which readers, subscribers and index functions share. With a transform,
// objects do not share equal parts when they are decoded, so the mirror needs more memory.
//
// # Reading the source
//
// run.go has the loop that moves batches from the FIFO to the store and the log. log.go is the
// log, cursor.go a subscriber's position in it, and subscriber.go calls the user's functions.
package informer
