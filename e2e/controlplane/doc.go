// Package controlplane runs a real Kubernetes control plane, etcd and kube-apiserver, on
// loopback, for tests that must not trust a double. It starts in seconds, authorises by
// RBAC, keeps nothing on disk for longer than the test, and can be mistreated:
//
//	plane := controlplane.Start(t, controlplane.Options{})
//	clients, err := kubernetes.NewForConfig(plane.Config())
//	…
//	plane.APIServer.Kill()
//	err = plane.APIServer.Start(ctx)
//
// The nouns:
//
//   - [Plane] is the whole of it. [New] and [Plane.Close] are for programs and for a
//     TestMain, [Start] for one test. [Plane.Config] is what an administrator's client
//     needs, [Plane.ConfigFor] that of any user, [Plane.TokenConfig] that of a service
//     account.
//   - [Part] is one of its two processes: started, stopped, killed, paused, on the same
//     port each time.
//   - [Snapshot] is etcd's state at a moment. [Plane.Restore] goes back to it, and so
//     rewinds the versions. [Plane.Compact] forgets the history.
//   - [Proxy] stands between a client and a server and cuts, slows, stalls, truncates,
//     refuses and delays what goes through it.
//
// The programs are built by the module beside this package, e2e/build, when they are not
// there yet; [Binaries] does so.
//
// # What is not there
//
// No controllers, scheduler or kubelet run. So namespaces are never emptied when they are
// deleted, owners are not followed, service accounts are not made by themselves (the
// admission plugin that asks pods for one is off), and pods stay pending. etcd does not
// wait for the disk, and the API server does not compact it by itself.
package controlplane
