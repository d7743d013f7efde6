// Package sim tests the pipeline from a list and a watch to a subscriber against a
// naive model of an API server, with random writers and every known fault of servers,
// proxies and networks. One number, the seed, determines all of it.
//
// The nouns:
//
//   - [Server] is the truth: the objects of one resource, the history of every change,
//     deletions that share a version, compaction, and the restore of an older state. It
//     serves lists and watches with the semantics of Kubernetes and is a source for a
//     reflector; there is no HTTP. [Quirks] are the ways in which correct servers differ.
//   - [Writer] changes a server at random.
//   - [Faulty] wraps a source and injects faults: errors,
//     cuts, stalls, duplicates, stale events, objects that cannot be decoded.
//   - [View] is the state that a subscriber derives from its events alone. It rejects
//     inconsistent events.
//   - [Trace] records what happened, to explain a failure.
//
// The tests are two simulations. The stepped one runs reflector, FIFO, store and views
// in a single goroutine: the world moves only while the reflector waits or between its
// steps, so that a seed replays exactly. The concurrent one runs a whole informer with
// subscribers that are slow, blocked, panicking, joining and leaving; there the seed
// fixes what the writers and the faults do, and a trace records the rest. Both run in a
// bubble of testing/synctest: hours pass in milliseconds.
//
// Package simtest, below this one, has the embedded API server for tests that make each change themselves.
//
// At every quiet point, when writers and faults have stopped and the readers have caught
// up, the mirror is compared with the server, each view with the mirror, and each index
// with a scan; in the stepped simulation every batch is also compared with the server's
// state at its version. Planted bugs must be found.
//
//	go test ./internal/sim -soak=100                     # look longer
//	go test ./internal/sim -sim.first=5000               # look elsewhere
//	go test ./internal/sim -run Stepped -sim.seed=4711 -v  # replay one, with its trace
//
// # What is not simulated
//
//   - Versions that are not decimals (L14), and servers that let a watch from a version
//     they have not reached wait in silence.
//   - A restore that has passed all versions readers know before one of them notices (W19): the
//     writers wait for the first source of an informer, not for the others. Nor one of a server whose deletions carry the object's own version.
//   - A subscriber that ignores changes of the status alone uses the generation. After
//     a restore the same generation may have another spec; a View does not insist on it.
package sim
