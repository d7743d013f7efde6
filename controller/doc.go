// Package controller reconciles keys: it takes them from sources, calls a reconcile function
// from a pool of workers, and retries failures.
//
//	c, err := controller.New("web", reconcile, controller.Options[object.Key]{Workers: 4},
//		controller.For(deployments),                          // its own objects
//		controller.Owns(pods, deployments)) // and what they own
//	…
//	return controller.Run(ctx, deployments, pods, c)
//
// where reconcile is a function
//
//	func(ctx context.Context, key object.Key) (controller.Result, error)
//
// that compares the current state with the desired one and acts on the difference.
//
// The types:
//
//   - [Controller] has the workers. A key is reconciled by one worker at a time.
//   - [Source] supplies keys: [For], [Owns], [Watches], [Channel], [Every], or your own.
//     [Predicate] filters changes.
//     [Controller.Attach] runs sources that come and go while the controller runs, such as those
//     of a cluster, with keys that [Map] translates.
//   - [Result], [Terminal] and ordinary errors are the outcomes of a reconcile.
//   - [Tracked] sends writes to the objects of a cache and tracks them.
//   - [Fence] and [Leadership] decide when this process may work; package leader implements
//     them with Leases. [WhileLeading] runs controllers while this process leads.
//   - [Run] runs controllers and informers together.
//   - [Finalizer] and [SetOwner] are helpers that most controllers need. Package recorder
//     records Kubernetes events.
//
// # Outcomes of a reconcile
//
// The zero Result: the key is done until it changes. After: reconciled again after that
// time. Requeue: reconciled again with back-off. An error: the same, and it is logged and
// counted; Options.Attempts limits the retries. [Terminal]: not retried. A panic is an error
// with a stack, whatever its value wraps. An optimistic-lock conflict is retried without a
// log message. A field-manager conflict of server-side apply is an error. [ErrStaleCache]
// holds the key back: it is retried after 5 ms, then with doubling delays up to one second;
// Status.HeldKeys lists it, and a warning is logged after 30 seconds and every 10 minutes. So does
// [ErrNotSynced]. Held keys take no tokens of Options.Rate.
//
// # Panics in other functions
//
// A panic in a predicate, a mapping function, Queue.Group, an observer, a limiter or metrics affects one
// key. A change whose predicate panics is reconciled. A key whose Queue.Group panics is reconciled, or
// with Options.Claims retried with back-off, because no process knows that it owns the key. Status counts
// these panics in FunctionPanics. A function that hangs holds up the worker or the source that called it.
//
// # Read-your-writes
//
// A cache may be older than this process's own writes. A key is not reconciled while a cache
// lacks a write that an earlier reconcile of that key made through a [Tracked], to any object,
// or while the cache of [For] lacks a write of this process to the key itself. So a
// controller that created a pod is not called again before the cache has that pod, and one
// that removed the last finalizer of an object is not called again before the object is
// deleted from the cache. [Tracked.Get] returns [ErrStaleCache] instead of an object older
// than a write of this process. A write that a cache will never have, because the object is
// outside its selection or could not be read or stored, does not hold back a key; Tracked.Get returns the
// cause, and so does [Tracked.Snapshot] of a part to which the object may belong. A conflict about such an
// object is a failure with that cause. A write whose response was lost is not tracked.
//
// # Priorities
//
// Objects that exist when a controller starts, resyncs and keys from [Every] are queued with
// the priority [Initial], so that changes overtake them. Ageing prevents starvation; see
// workqueue.Options.
//
// # Leadership
//
// Informers run outside [WhileLeading], so their caches stay warm. A controller in WhileLeading starts when the
// process becomes leader, with the complete current state, and stops when it loses
// leadership: running reconciles are cancelled at once. The fence is checked before each
// reconcile and before each attempt of a write of a [Tracked], retries included. As after a
// restart, a new leader does not receive deletions that happened before its term; cleanup
// needs a [Finalizer].
//
// # Shutdown
//
// When the context of Run is done, no new reconcile starts. Running ones have Options.Grace
// to finish, then their contexts are cancelled. If that interrupts a reconcile, the error of
// Run is a [*UnfinishedError] with the keys that are left. Keys that only wait, for example in
// back-off, are no error: they are logged, and Status lists them as Left.
//
// # Metrics, traces and logs
//
// Options.Observers are called around each reconcile. Packages console/metrics and
// console/tracing have observers for Prometheus and OpenTelemetry. Options.Logger takes a
// *slog.Logger. A program that uses logr sets it to
//
//	slog.New(logr.ToSlogHandler(log))
//
// # Reading the source
//
// run.go is the lifecycle of a controller, worker.go is one reconcile, and notes.go is the
// state of a key between two reconciles. attach.go is about groups of sources: a run has one of
// its own or any number of attached ones.
package controller
