// Package leader has two replicas of a controller, each a process of its own, compete for a
// lease of a real control plane while the one that leads is killed and paused, in an order
// that a seed decides. What must hold:
//
//   - No reconcile and no write begins after the lease's deadline as the process itself can
//     know it: the time before the request was sent that renewed the lease, plus the
//     lease's duration. Work begun before a pause and continued after it is recognised by
//     the times of the pause.
//   - The times in which the replicas work do not overlap.
//   - A write that was on its way when its process was paused, and arrives after another
//     has taken over, is refused because of its resource version.
//   - In the end every key is reconciled.
//
// A longer run, of ten times as many rounds:
//
//	go test ./leader -v -timeout 1h -seed 7 -soak 10
package leader
