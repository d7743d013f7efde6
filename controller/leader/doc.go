// Package leader elects one of several processes with a Lease of Kubernetes, by way of
// client-go's leaderelection. An [Elector] is a controller.Leadership:
//
//	lock := leader.NewLease(clientset.CoordinationV1(), object.Key{Namespace: "shop", Name: "web"}, "")
//	elector, err := leader.New(lock, leader.Options{})
//	…
//	return controller.Run(ctx, pods, controller.Led(elector, web))
//
// What it adds is a fence that a process can trust in itself. The lease counts from the
// moment before the request that renewed it was sent (of those within one second the first,
// since others cannot tell them apart), so it ends here before it ends for anybody else; it
// is asked before each reconcile and each write; and it is measured by two clocks, whichever
// shows more: the monotonic one, which cannot be set, and the wall clock, which goes on
// while a machine sleeps. A process that was paused finds its fence closed when it wakes.
//
// The lease is released when the work has ended, not before; the next leader need not
// wait for its end. What no fence can prevent is that a request which was already on its
// way arrives late; an object's resource version catches that.
package leader
