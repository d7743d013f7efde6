// Package shard divides keys among the processes that run the same controllers. A [Group] is a
// controller.Membership:
//
//	group, err := shard.New(client, object.Key{Namespace: "shop", Name: "web"}, shard.Options{})
//	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
//		Claims: true,
//		Queue:  workqueue.Options[object.Key]{Group: shard.ByNamespace},
//	}, controller.For(deployments))
//	…
//	return controller.Run(ctx, deployments, controller.Sharded(group, web))
//
// The space of hashes has 256 slots ([Slots]). Every slot belongs to one member of the group, and a
// member works on the keys of its slots. When a member joins, it takes its share of the slots from
// all others; when one leaves, the others share its slots. Nothing else moves.
//
// # Guarantees
//
//   - At no moment do two members work on one slot: not when members join, leave, crash, are
//     paused, lose their connection, or have clocks whose speeds differ by up to 10 %. The
//     exceptions are a reconcile that ignores its cancelled context for seconds after the lease has
//     lapsed, and one in a process that was paused, for up to half a second after it continues: their
//     writes through a controller.Client are refused, but they run.
//
//   - When membership no longer changes, every slot is worked on after at most three lease durations
//     plus the time that running reconciles take to end. The third is for the caches of a new owner.
//
//   - A write of a controller.Client is not sent when the slot of its reconcile is lost, and one that
//     was sent is given up, because the context of the reconcile is cancelled. The request can still
//     arrive late; see Late requests.
//
//   - A member sends about one request in five seconds for all of this, while slots are handed over
//     less than one per second: slots that were released wait up to 2.5 seconds for others that are
//     being drained, and so does the assignment for others that are being moved.
//
//   - A new owner of a slot works when its caches (Options.Caches) have what the old owner wrote
//     through a controller.Client, except what that wrote in the last seconds before a crash.
//
//   - Members whose caches or watch of the leases are not current get no slots.
//
//   - Members with other Options.Rules or Ranges do not work at the same time, whatever is in Queue.Group.
//
//   - A request for a lease may take up to a third of the lease duration: slower ones stop the members, and
//     [Status] says so.
//
// # Late requests
//
// The server does not know epochs. A request that was sent while the slot was owned, and was then given
// up, can be delayed by the network until the next owner works: for more than 2.5 seconds after a lease
// has lapsed (see below), or for less if the reconcile was cancelled at the end of its Grace. The server
// refuses it if it has a condition that is no longer true: updates, and the writes that package tarn's Client makes
// of a read object, name its resource version, and deletions its UID. Patches, applies and creates with generateName
// have none, and events of package recorder have no fence. docs/scaling.md has a table of all writes.
//
// What is accepted late is a change of the object like any other: a next owner that watches the
// object reconciles its key again.
//
// # Limits
//
//   - Every member mirrors all objects and works on its share of the keys, except with
//     Options.Ranges.
//   - A new owner also reconciles the keys that were deleted while the slot was moved, if its own
//     cache had them and no more than 8,192 keys were deleted since. Cleanup that must not be missed
//     needs a controller.Finalizer, as after a restart.
//   - A new owner does not wait for deletions by the old one, and not longer than a lease duration
//     for its writes: a cache may then show an object that was deleted or an old version. Writes
//     that name a resource version or a fixed name are safe; a create with generateName may
//     happen twice.
//
// # How it works
//
// Everything is stored in Leases with a common label, so one watch shows the whole group at one
// resource version. Each member has a lease, which it renews every 5 seconds. One more lease,
// GROUP.slots, has the assignment: for each slot its owner, its epoch, and, while it is
// being moved, its next owner. Both name the rules by which keys are divided. (The durations here are those of the default LeaseDuration. Members
// may have different ones; all of them wait for the longest.)
//
// A member works on a slot while the assignment that it sees names it as the owner, and for 10
// seconds after it sent its last renewal. A renewal counts when the server's answer comes before the
// one before it has lapsed, and when the member's own watch shows it. So a member whose watch is stuck
// stops by itself. If the answer takes more than 2 seconds, another renewal of the same version is sent: the
// first may be lost, or the server is slow. The next one is due 5 seconds after the one that was stored was sent.
//
// To move a slot from A to B, the assignment names B as next. A starts nothing new on the slot,
// lets running reconciles end, and writes into its own lease that it has released the slot in this
// epoch, and the resource versions that it has written. Then the assignment names B as the owner, in
// a higher epoch, with these versions. A member that leaves releases its slots without being asked. If A does not answer, its lease
// has to expire first: 15 seconds after it was last seen to change, by the clock of the member
// that waits, counted up to that member's own last confirmed renewal. Times that another machine
// wrote are never used.
//
// A member that has not renewed for 10 seconds has lost its slots. It ends its work, for up to 15 seconds, and
// begins a new term, with a number in its lease; the slots of its earlier term are free when
// other members see that. So a process that was paused for a minute cannot continue where it was. If
// another process has written to its lease, it begins its new term under a new name.
//
// Work that has not ended by then, because a reconcile ignores its cancelled context, blocks its slot in
// this member, and no other: the lease says that this member cannot get the slot, so another one does.
// The fence of the work stays closed.
//
// Free slots of a member that is in a later term are given away when the set of members has not changed for 2 seconds. Time
// without the server does not count as time in which other leases have not changed. So after an outage
// of the API server all members get again what they had, except one whose caches are live over 2 seconds
// later than those of the others.
//
// A member gets slots only while its lease says that it is ready: its own watch shows its lease, and
// its caches are watching, or were until a lease duration ago. If no other member is ready, it keeps
// what it has. The lease of a member that has not renewed it for five minutes, and owns nothing, is
// deleted by another one.
//
// Any member may write an assignment. It is safe because of what the writer has seen and because
// the write names the resource version that it replaces, not because of who writes: there is no
// leader. The first in the order of names does it, the second if the first has not after 2 seconds,
// and so on.
//
// # Why the times are safe
//
// A stops 10 seconds after sending a renewal r, by its own clock, at most 11.1 seconds if that is
// slow by 10 %. Another member sees r, or a state before it, when or after it was stored, so it waits
// at least 13.6 seconds. It cannot miss a later renewal: A counts one only if it is answered within 10
// seconds of the one before, which is before the other member's confirmed renewal was sent. 2.5 seconds are
// left for requests that are on their way.
//
// If the assignment is missing or cannot be read, because a group is new or a person has deleted it, members may
// still work on slots of an earlier one. The new one begins a line, which has a random name, and has no owners: a
// member gives slots away when it has seen the line for a lease duration. Then a member that works by an
// earlier line has lapsed, because its last renewal was stored before that line ended. So the assignment can be
// deleted at any time and as often as one likes.
//
// # Rules
//
// Members work if their rules are those of the assignment. Others wait, and take over when all slots are free: their
// owners have released them, left or crashed. The first one with other rules then writes its own into the
// assignment, with the new owners. A reconcile that does not end keeps them waiting for two lease durations more.
//
// What is compared is Options.Rules, Options.Ranges and the number of slots. Not detected are a function that
// changes while its Rules stay the same, processes with another group or another namespace of the leases, which do not
// see each other, and a person who writes owners or rules into the assignment, such as by restoring an old copy. The
// group works again after that: members release what they own by other rules.
//
// # Ranges
//
// With Options.Ranges a slot is a range of the server's hashes of namespaces, and the caches of a member
// have the objects of its slots only. A member's lease says which slots its caches have. A slot
// is moved when those of the next owner have it, so that changes and deletions during the move are in
// one of the two; the owner works on it until then. A slot whose owner crashed or left is given away at once,
// and its new owner works on it when its caches have it.
//
// # Reading the source
//
// machine.go has the states of a term and of a slot, and the step that makes all decisions, without input, output or
// clocks; view.go what it knows of the others, renewal.go its own lease, and plan.go the next assignment. sim_test.go
// simulates them with all the faults above. group.go and requests.go connect them to the API server and cache.go to the
// caches, and lease.go and assignment.go are how state is stored.
package shard
