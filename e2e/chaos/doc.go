// Package chaos has Tarn mirror a real control plane while faults are injected.
//
// Writers write at full speed, straight to the API server. Mirrors of every form follow
// through two faulty proxies, one that speaks HTTP/2 and one HTTP/1.1. Meanwhile faults
// strike, one at a time or several at once, in an order that a seed determines: connections are
// cut, cut off in the middle, slowed, stalled, held back, reordered and refused; the API
// server and etcd are killed, paused and restarted; etcd is compacted, and restored
// from a backup. These must hold throughout:
//
//   - A subscriber receives a consistent sequence of changes: none twice, none of an object
//     that it does not know, and for each key only increasing versions, except once after
//     each restore.
//   - The marks of snapshots never go back, and their epoch is the number of restores.
//   - A snapshot at any moment is, byte for byte, what the server lists at its version.
//   - Whenever the writers pause, every mirror, and the state that every subscriber derives
//     from its changes, become equal to a fresh list, byte for byte, and there are no more
//     goroutines and connections than at first.
//   - In the end no goroutine and no connection is left.
//
// The time that recovery takes is printed, not checked. After a restore the run provokes
// a list, see rewind: a real server accepts a watch from a version that it has not reached and
// sends nothing, so that no client can notice by watching alone.
//
// The seed determines faults and writes, but not their interleaving. Longer
// runs, of ten times as many faults and of an hour:
//
//	go test ./chaos -v -timeout 2h -seed 7 -soak 10
//	go test ./chaos -v -timeout 2h -chaos.duration 1h
package chaos
