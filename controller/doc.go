// Package controller turns changes into work: it takes keys from sources, has workers
// reconcile them, and sees to what goes wrong.
//
//	c, err := controller.New("web", reconcile, controller.Options[object.Key]{Workers: 4},
//		controller.For(deployments),                          // its own objects
//		controller.Owned(pods, deployments, deploymentType)) // and what they own
//	…
//	return controller.Run(ctx, deployments, pods, c)
//
// where reconcile is a function
//
//	func(ctx context.Context, key object.Key) (controller.Result, error)
//
// that compares what is with what should be, and does the rest.
//
// The nouns:
//
//   - [Controller] has the workers. One key is reconciled by one of them at a time.
//   - [Source] says which keys to look at: [For], [Owned], [Mapped], [Channel], [Every],
//     or one of your own. [Predicate] leaves changes out.
//   - [Result], [Terminal] and ordinary errors are what a reconcile may say.
//   - [Client] writes to the API and remembers what it wrote.
//   - [Fence] and [Leadership] say when this process may work; package leader has the one
//     with Leases. [Led] puts controllers under it.
//   - [Run] runs controllers and informers together.
//   - [Finalizer], [SetOwner] and [Recorder] are for what most controllers need.
//
// # What becomes of a reconcile
//
// Done (the zero Result): nothing, until the key changes. After: again when the time has
// passed. Requeue: again, with back-off. An error: the same, and it is logged and counted;
// Options.Attempts may put an end to it. [Terminal]: no retry. A panic is an error with a
// stack, whatever its value wraps. An optimistic-lock conflict with another client's write
// is tried again without noise. A field-manager conflict of server-side apply is an error.
// [ErrStaleCache] holds the key back: it is tried again after 5 ms, then later and later,
// up to once a second; Status.HeldKeys lists it, and a warning is logged after 30 seconds
// and every 10 minutes.
//
// # Reading what one wrote
//
// A cache may be older than what this process wrote. A key is not reconciled while a cache
// does not show all that earlier reconciles of that key wrote through a [Client], to
// whatever objects, nor while the cache of [For] lacks any write of this process to the
// key itself. So a controller that created a pod is not called again before it can see
// that pod, and one that removed the last finalizer of an object is not called again
// before the object is deleted. [Client.Get] returns [ErrStaleCache] instead of an object
// older than a write of this process. What a cache will never show, because the object is
// outside of its selection or in quarantine, holds no key back; Client.Get returns the
// cause. A write whose answer was lost is not known.
//
// # Priorities
//
// The objects that exist when a controller starts, resyncs and what [Every] adds are
// queued with the priority [Initial], so that changes overtake them; by their age they
// are still taken in time, see workqueue.Options.
//
// # Leadership
//
// Informers run outside of [Led] and stay warm. A controller under Led begins when the
// process wins, with the state as it is then, and ends when it loses: running reconciles
// are cancelled at once. Before each reconcile and before each attempt of a write of a
// [Client], retries included, the fence is asked. A deletion that nobody led to see is not told to the next leader, as
// after a restart; what must be cleaned up needs a [Finalizer].
//
// # The end
//
// When the context of Run is done nothing new is begun. What runs has Options.Grace to
// finish, then its context is cancelled. If that cuts a reconcile short, the error of Run is
// a [*LeftError], which lists the keys that are left. Keys that only wait, in back-off for
// instance, are no error: they are logged, and Status has them as Left.
//
// # Where to begin reading
//
// run.go is the life of a controller, from its sources to its end; worker.go is one
// reconcile; notes.go is what is remembered of a key between two.
package controller
