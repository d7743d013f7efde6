// Package delta is the queue between a reflector and a store: a FIFO of keys, each
// with the list of changes that are pending for it.
//
// Producers call Apply, or Add, Update, Delete, Replace, Resync and Bookmark, with the
// results of lists and watches. One consumer at a time takes what is pending, in one of two
// ways:
//
//   - [FIFO.Pop] returns all deltas of the key that has been pending longest. A store built
//     this way passes through states that the server never had, because an older change of
//     another key may still be pending. Pop therefore returns no version.
//   - [FIFO.PopBatch] returns everything that is pending, in order of arrival, with the
//     [object.Mark] up to which it is complete. A store that applies
//     the batch as one transaction is then the server's state at that version, except
//     that deletions of the next version may already be in it ([object.Mark]).
//
// [FIFO] is the queue and implements [object.Sink]. [Deltas] are the pending changes of one
// key, each an [object.Change]. [Known] is the state that the consumer holds.
//
// To read the source, begin with FIFO in fifo.go, then log.go, the contents of a FIFO: a
// slice of deltas with a chain through it for each key (index.go). pop.go takes a log and
// puts it back, replace.go expands lists into deltas, and fate.go determines the state of
// one key from what is pending and in flight.
package delta
