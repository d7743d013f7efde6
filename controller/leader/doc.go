// Package leader elects one of several processes with a Kubernetes Lease. An [Elector] is a
// controller.Leadership:
//
//	elector, err := leader.New(client, object.Key{Namespace: "shop", Name: "web"}, leader.Options{})
//	…
//	return controller.Run(ctx, pods, controller.WhileLeading(elector, web))
//
// It uses the Lease as client-go's leaderelection does, so processes with either can compete
// for the same one.
//
// It adds a fence that closes before another process can take the lease. The lease counts
// from the moment before the renewing request was sent (of several within one second, the
// first, because client-go's electors cannot distinguish them), so it expires here before it
// expires anywhere else. The fence is checked before each reconcile and each write. It
// measures time with two clocks and uses the one that shows more: the monotonic clock, which
// cannot be set, and the wall clock, which continues while the machine is suspended. A process
// that was paused finds its fence closed when it resumes.
//
// The lease is released when the work has ended, not before, so the next leader need not wait
// for it to expire. If the work returns although reconciles still run (controller.ErrStillRunning), the
// lease is left to expire: the fence is closed, so these reconciles can write nothing.
//
// With Options.Caches, a leader whose caches have not been live for longer than the lease says so in the
// lease. A candidate whose caches are live answers there, and only then the leader ends its work and
// releases the lease. A process whose caches are not live leaves a free lease to others for three
// times RetryPeriod, so it still leads if no process can do better. A new leader begins to work when its
// caches have what earlier leaders wrote through a controller.Tracked, except what they wrote in the last
// seconds before a crash, and waits for that no longer than a lease duration. Electors of client-go
// keep these annotations and ignore them.
//
// A fence cannot stop a request that was already sent and arrives late: the server
// refuses it only if it has a condition, such as a resource version. docs/scaling.md lists which writes have one.
package leader
