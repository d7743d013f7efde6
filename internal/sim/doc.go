// Package sim tests the pipeline from a list and a watch to a subscriber against a
// naive model of an API server, with random writers and every fault that a server, a
// proxy or a network has been seen to commit. One number, the seed, decides all of it.
//
// The nouns:
//
//   - [Server] is the truth: the objects of one resource, the history of every change,
//     deletions that share a version, compaction, and the restore of an older state. It
//     serves lists and watches with the semantics of Kubernetes and is a source for a
//     reflector; there is no HTTP. [Quirks] are the ways in which correct servers differ.
//   - [Writer] changes a server at random.
//   - [Faulty] stands between a source and its user and spoils what passes: errors,
//     cuts, stalls, duplicates, stale events, objects that cannot be decoded.
//   - [View] is a subscriber's idea of the world, rebuilt from its events alone, and
//     refuses events that make no sense.
//   - [Trace] remembers what happened, for when something goes wrong.
//
// The tests are two simulations. The stepped one runs reflector, FIFO, store and views
// in a single goroutine: the world moves only while the reflector waits or between its
// steps, so that a seed replays exactly. The concurrent one runs a whole informer with
// subscribers that are slow, blocked, panicking, joining and leaving; there the seed
// fixes what the writers and the faults do, and a trace records the rest. Both run in a
// bubble of testing/synctest: hours pass in milliseconds.
//
// Package simtest, below this one, has a server for tests that make each change themselves.
//
// At every quiet point, when writers and faults have stopped and the readers have caught
// up, the mirror is held against the server, each view against the mirror, and each index
// against a scan; in the stepped simulation every batch is held against the server's
// state at its version as well. Bugs are planted to see that they are found.
//
//	go test ./internal/sim -soak=100                     # look longer
//	go test ./internal/sim -sim.first=5000               # look elsewhere
//	go test ./internal/sim -run Stepped -sim.seed=4711 -v  # replay one, with its trace
//
// # What is not simulated
//
//   - Versions that are not decimals (L14), and servers that let a watch from a version
//     they have not reached wait in silence.
//   - A restore that has passed the versions readers know before they notice (W19): the
//     writers wait. Nor one of a server whose deletions carry the object's own version.
//   - A subscriber that ignores changes of the status alone goes by the generation. After
//     a restore the same generation may have another spec; a View does not insist on it.
package sim
