// Package store is an in-memory, multi-versioned, indexed set of objects: the mirror
// of a resource, or a thread-safe indexed store by itself.
//
// There are five nouns:
//
//   - [Store] holds the objects. One writer at a time changes it: [Store.Apply] takes
//     a batch of deltas, [Store.Set], [Store.Delete] and [Store.Replace] single
//     changes. Each is one transaction over objects and indexes.
//   - [Snapshot] is the store at one moment. It is taken in constant time, never
//     changes, and knows the resource version at which it is the server's state.
//     Reads through it wait for nobody and nobody waits for them.
//   - [Index] is a typed way into a snapshot: by node, by owner, by label, by
//     whatever a function of the object gives. An index is a value, not a name; asking
//     it for a key of the wrong type does not compile.
//   - [Change] is what happened to one object: the result of Apply, and of [Diff]
//     between two snapshots.
//   - [Form] is how objects rest: decoded (the default), or [Encoded] or [Packed] and
//     decoded again when read.
//
// # What holds
//
//   - A reader sees whole transactions only: objects and every index together.
//   - Readers take no locks. A [Store.Get] costs a hash lookup.
//   - Objects handed out are shared and must not be written to. [Options] has a
//     detector that finds who does.
//   - What a snapshot can see stays until it is released, or forgotten and collected;
//     nothing else does. [Store.Stats] shows who holds how much.
//   - An index function that fails or panics costs its object the place in that index,
//     is counted, and stops nothing.
//
// # How
//
// Every key has one chain of versions, newest first; the writer adds to the chains and
// publishes the lot by advancing one revision, and a reader takes the newest version
// not after the revision it holds. The ordered key set and the postings of an index exist
// once for all revisions: they hold the small integer ids of every object that some revision
// sees, and a reader leaves out what its own does not. Package internal/mvcc has the details
// and what was tried before.
package store
