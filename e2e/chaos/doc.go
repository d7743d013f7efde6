// Package chaos has Tarn mirror a real control plane that is being mistreated.
//
// Writers write at full speed, straight to the API server. Mirrors of every form follow
// through two faulty proxies, one that speaks HTTP/2 and one HTTP/1.1. Meanwhile faults
// strike, in an order that a seed decides: connections are cut, cut off in the middle,
// slowed, stalled, held back and refused; the API server and etcd are killed, paused and
// restarted; etcd forgets its history. What must hold all the while:
//
//   - A subscriber is told a sequence of changes that makes sense: nothing twice, nothing
//     of what it does not know, no version older than one before.
//   - The versions of snapshots never go back, and the epoch never changes.
//   - A snapshot at any moment is, byte for byte, what the server lists at its version.
//   - Whenever the writers pause, every mirror and what every subscriber has made of the
//     changes become, byte for byte, what a fresh list has.
//   - In the end no goroutine and no connection is left.
//
// The seed fixes faults and writes, not how they meet: that is up to the machine. A longer
// run:
//
//	go test ./chaos -v -timeout 2h -chaos.duration 1h -chaos.seed 7
package chaos
