// Package delta is the queue between a reflector and a store: a FIFO of keys, each
// with the list of changes that are pending for it.
//
// Producers call Add, Update, Delete, Replace, Resync and Bookmark as a list and a
// watch tell them. One consumer at a time takes what is pending, in one of two ways:
//
//   - [FIFO.Pop] hands over all deltas of the key that has been pending longest.
//     The store that is built this way passes through states the server never had,
//     because another key's older change may still be pending; so Pop tells no
//     version.
//   - [FIFO.PopBatch] hands over everything that is pending, in the order in which
//     it came, with the [object.Mark] up to which it is complete. A store that applies
//     the batch as one transaction is then the server's state at that version, except
//     that deletions of the next version may already be in it ([object.Reach]).
//
// The nouns are [FIFO], the queue; [Type], what happened; [Delta], what happened to
// one object; [Batch], what happened until a version; and [Known], what the consumer
// holds already.
//
// To read the source, begin with FIFO in fifo.go, then log.go, which is what a FIFO
// holds: one growing slice of deltas with a chain through it for each key (index.go).
// pop.go hands a log over and takes it back, replace.go takes lists apart, and fate.go
// says what all that is pending and in flight means for one key.
package delta
