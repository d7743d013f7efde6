// Package informer keeps a live mirror of a resource and shares it among any number of
// readers and subscribers. It joins the stages below it: a reflector lists and watches,
// a delta.FIFO collects, a store holds.
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
//   - [Informer] is the mirror. [Informer.Get] and [Informer.Snapshot] read it without
//     waiting; indexes are queried with a snapshot.
//   - [Subscription] is one subscriber, in one of three forms: a [Handler] of functions
//     ([Informer.Subscribe]), a function that receives many changes at once
//     ([Informer.SubscribeBatch]), or a loop ([Informer.Events]).
//   - [Event] is a change as one subscriber receives it.
//   - [Writes] tracks what this process wrote, so that it never reads anything older.
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
// By default a subscriber is called for changes: what a list has at the UID and version held, an
// event that is not newer, and the deletion of an object that is not held are dropped, and another
// UID under the same name is a deletion and an addition. With Options.Verbatim the informer mirrors
// and reports every event and every item of a list as the source sends it, and the last one wins;
// see [store.Store.Apply] for the rules. Together with SubOptions.EveryChange these are the
// semantics of client-go's informers, which package clientgo is built on. Two limits remain: the
// reflector does not pass on events that a server repeats or sends late, and a subscriber without
// EveryChange that falls behind is still caught up with the outcome.
//
// # Reading what one wrote
//
// The mirror follows the server, so it may not have a write that this process just made.
// [Informer.WaitFor] waits until it has reached a version, and [Writes] does so for
// what was written. On a resource where nothing happens the version moves only when the
// server sends bookmarks, about once a minute, if at all; errors of these waits say so. That
// includes the version of a deletion that nothing has followed yet, because deletions may share a
// version ([object.Reach]); [Writes] waits for the object of that UID to be deleted instead.
// A written object that is outside of the selection or in quarantine is not waited for:
// reads through Writes return the cause.
//
// # Namespaces
//
// An informer covers everything its Selection selects, by one list and watch, or, with
// Options.Namespaces, a set of namespaces by one each, which [Informer.SetNamespaces]
// changes while it runs. A snapshot's Marks tell the version of each; a namespace that is no
// longer, or not yet, covered has none.
//
// # Memory
//
// Options.Form with store.Packed holds objects as the bytes that others alike do not have
// too, and decodes them when they are read; with store.Encoded, as all their bytes. The
// objects of a list are put into the form as they come, so that the initial list takes
// hardly more memory than what it leaves. For typed objects in protobuf their own Marshal
// and the Decode of the stream.Source go together well. What should never become objects at all (managedFields, say) is for the Source
// to leave out; an informer of metadata only is one whose Source yields
// metav1.PartialObjectMetadata. Options.Transform changes objects before they are held. It
// owns each object until it returns; afterwards nothing writes to the object, which readers,
// subscribers and index functions share. A mirror with a transform is decoded without
// sharing equal parts between objects, and so takes more memory.
//
// # Where to begin reading
//
// run.go has the loop that moves batches from the FIFO to the store and to the log;
// log.go and cursor.go are the log and a subscriber's place in it; subscriber.go calls
// the user's functions.
package informer
