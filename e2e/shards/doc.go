// Package shards runs five replicas of a sharded controller, each an OS process with its own
// connection to a real control plane, and kills, pauses, partitions, stops and restarts them in an
// order that a seed determines. It does so on a server with the feature gate ShardedListAndWatch
// and on one without.
//
// Every reconcile writes into its object, when it begins and when it ends: its replica, the slot
// and the slot's epoch. A watch of the test records these entries and the assignments of
// the group. Both have resource versions of one etcd, so their order is known. The test checks:
//
//   - P01: no two replicas reconcile a key at the same time. A pause in the middle of a reconcile ends
//     it for this purpose: what a paused process had begun can run for a moment after the pause.
//   - The epochs that were written to a key do not decrease, and each has one writer.
//   - No write began after the assignment named another owner of the slot. A write that began before
//     and arrived late counts as in flight; it can only reach a key that the new owner has not
//     written to, because updates name the resource version.
//   - No fence is open after the server has stored an assignment to another replica.
//   - P02: when the faults are over, every slot has an owner that works within the bound of package
//     shard: three lease durations after the last membership change, plus the longest reconcile.
//     Times are those that the processes recorded. Spans in which a process did not run do not
//     count, so a busy machine does not fail the test.
//   - P02: every change is reconciled within that bound after the later of the change and the last
//     membership change, plus the time for which all workers of its replica reconciled other keys.
//
// A longer run takes ten minutes, with 20,000 objects:
//
//	go test ./shards -v -timeout 1h -long -seed 7
//
// -plant makes the replicas ignore their fences, and the test must fail. -figures measures
// what is in docs/benchmarks.md, and with -run FiguresOfRanges what the mirrors of each replica cost.
package shards
