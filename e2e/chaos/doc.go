// Package chaos has Tarn mirror a real control plane that is being mistreated.
//
// Writers write at full speed, straight to the API server. Mirrors of every form follow
// through two faulty proxies, one that speaks HTTP/2 and one HTTP/1.1. Meanwhile faults
// strike, one at a time or several at once, in an order that a seed decides: connections are
// cut, cut off in the middle, slowed, stalled, held back, reordered and refused; the API
// server and etcd are killed, paused and restarted; etcd forgets its history, and is restored
// from a backup. These must hold throughout:
//
//   - A subscriber receives a consistent sequence of changes: none twice, none of an object
//     that it does not know, and for each key only increasing versions, except once after
//     each restore.
//   - The marks of snapshots never go back, and their epoch is the number of restores.
//   - A snapshot at any moment is, byte for byte, what the server lists at its version.
//   - Whenever the writers pause, every mirror and what every subscriber has made of the
//     changes become, byte for byte, what a fresh list has, and there are no more goroutines
//     and connections than at first.
//   - In the end no goroutine and no connection is left.
//
// How long recovery takes is printed, and is no condition. After a restore the run provokes
// a list, see rewind: a real server accepts a watch from a version that it has not reached and
// sends nothing, so that no client can notice by watching alone.
//
// The seed fixes faults and writes, not how they meet: that is up to the machine. Longer
// runs, of ten times as many faults and of an hour:
//
//	go test ./chaos -v -timeout 2h -seed 7 -soak 10
//	go test ./chaos -v -timeout 2h -chaos.duration 1h
package chaos
