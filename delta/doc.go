// Package delta has the queues between a reflector and its consumer.
//
//   - [FIFO] is client-go's DeltaFIFO: each key has the list of changes that are pending for it, and
//     Pop takes the key that has been pending longest. A store built this way passes through states that
//     the server never had, because an older change of another key may still be pending. Pop therefore
//     returns no version.
//   - [Buffer] is what an informer has: changes in the order in which they arrived. PopBatch takes all of
//     them, with the [object.Mark] up to which they are complete. A store that applies the batch as one
//     transaction is then the server's state at that version, except that deletions of the next
//     version may already be in it ([object.Mark]).
//
// Both implement [object.Sink]. Neither decides whether a change is news: that takes what the consumer
// holds when it applies the change (W14). [Deltas] are the pending changes of one key, each an
// [object.Change]. [Known] is the state that the consumer of a FIFO holds.
//
// To read the source, begin with Buffer in buffer.go. fifo.go has a FIFO's contents, produce.go what
// lists, events and resyncs add to it, and pop.go how keys are taken and put back.
package delta
