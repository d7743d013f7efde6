// Package store is an in-memory, multi-versioned, indexed set of objects: the mirror
// of a resource, or a thread-safe indexed store by itself.
//
// There are five nouns:
//
//   - [Store] holds the objects. One writer at a time changes it: [Store.Apply] takes
//     a batch of deltas, [Store.Set], [Store.Delete] and [Store.Replace] single
//     changes. Each is one transaction over objects and indexes.
//   - [Snapshot] is the store at one moment. It is taken in constant time, never
//     changes, and has the resource version at which it is the server's state.
//     Its readers never wait for the writer, nor the writer for them.
//   - [Index] finds the objects of a snapshot by a value that a function computes from them:
//     node, owner, label. An index is a typed Go value, not a name: asking it for a value of
//     the wrong type does not compile.
//   - [object.Change] is what happened to one object: the result of Apply, and of [Diff]
//     between two snapshots.
//   - [Form] is how a compact store holds objects: [Packed], and decoded again when read.
//
// # Guarantees
//
//   - A reader sees whole transactions only: objects and every index together.
//   - Readers take no locks. A [Store.Get] costs a hash lookup.
//   - Objects are shared with all readers. No caller may write to one; [Options.OnMutation] detects
//     writes.
//   - The store keeps the versions that a snapshot can see until the snapshot is released or
//     garbage-collected, and no others. [Store.Stats] shows what is retained for which snapshot.
//   - If an index function fails or panics, the object is stored without values in that index,
//     and the failure is counted.
//   - Nothing is kept in order. [Snapshot.Sorted], [Snapshot.After] and the ordered methods of an
//     [Index] sort when they are called, and keep the result for later calls.
//
// # Structure
//
// Every key has a record with its newest version and a chain of older ones. The writer adds
// versions and publishes them together by advancing one revision. A reader takes the newest
// version that is not after its own revision. Namespaces and index values have sets of small
// integer ids, shared by all revisions; a reader leaves out the ids that its revision does not
// see. Package internal/mvcc has these structures; this package is the policy on top: which
// events are news, what an index holds, and in which form objects are held.
package store
