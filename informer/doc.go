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
// The nouns:
//
//   - [Informer] is the mirror. [Informer.Get] and [Informer.Snapshot] read it and wait
//     for nobody; indexes are asked with a snapshot.
//   - [Subscription] is somebody who is told of changes, in one of three forms of the
//     same thing: a [Handler] of functions ([Informer.Subscribe]), a function that gets
//     many changes at once ([Informer.SubscribeBatch]), or a loop
//     ([Informer.Events]).
//   - [Event] is a change as a subscriber is told of it.
//   - [Writes] remembers what this process wrote, so that it never reads anything older.
//   - [Status] tells all there is to know of an informer's health.
//
// # What subscribers are told
//
// A subscriber is first told the state as it is when it subscribes, as additions marked
// Initial, and then every change, in order, with no gap and nothing twice. It does not
// matter whether it came before Run, during it, or from inside another's callback.
//
// Changes go to one log that all subscribers read at their own pace. Nobody waits for a
// slow one: the log is bounded, and who falls off its end is caught up with the
// difference between the last state it was told and the present one. Of one key it is
// then told at most the last state: an addition and updates are one addition, updates
// are one update from the first old to the last new state, an addition and a deletion
// are nothing. Deletions are then marked as final state unknown, with the last object
// that the subscriber was told of. So what a blocked subscriber costs follows the
// number of objects, not that of events, and its lag shows in its status.
//
// A subscriber that needs each change sets SubOptions.EveryChange. It is never caught up, and its
// backlog is not bounded: it follows the number of events, and shows in Status.Logged. Other
// subscribers are caught up as before.
//
// A subscriber that panics loses the one event (or, in batches, the one call), is
// reported by its name, and goes on.
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
