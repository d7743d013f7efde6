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
// for it to expire. A fence cannot stop a request that was already sent and arrives late: the server
// refuses it only if it has a condition, such as a resource version. Package shard lists which
// writes have one, under Late requests.
package leader
