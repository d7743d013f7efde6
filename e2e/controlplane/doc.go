// Package controlplane runs a real Kubernetes control plane, etcd and kube-apiserver, on
// loopback, for tests that need the real one. It starts in seconds, authorises by RBAC,
// removes its files with the test, and can be disrupted:
//
//	plane := controlplane.Start(t, controlplane.Options{})
//	clients, err := kubernetes.NewForConfig(plane.Config())
//	…
//	plane.APIServer.Kill()
//	err = plane.APIServer.Start(ctx)
//
// The nouns:
//
//   - [Plane] is the control plane. [New] and [Plane.Close] are for programs and for a
//     TestMain, [Start] for one test. [Plane.Config] is what an administrator's client
//     needs, [Plane.ConfigFor] that of any user, [Plane.TokenConfig] that of a service
//     account.
//   - [Part] is one of its two processes: started, stopped, killed, paused, on the same
//     port each time.
//   - [Snapshot] is etcd's state at a moment. [Plane.Restore] goes back to it, and so
//     rewinds the versions. [Plane.Compact] discards the history.
//   - [Proxy] forwards connections to a server and can cut, slow, stall, truncate, refuse and
//     delay them.
//
// [Binaries] builds the programs with the module e2e/build if they are missing.
//
// # What is not there
//
// No controllers, scheduler or kubelet run. So deleted namespaces are never
// emptied, there is no garbage collection, service accounts are not created (the admission
// plugin that requires one is disabled), and pods stay pending. etcd does not sync to disk,
// and the API server does not compact it.
package controlplane
