// Package apiserver is a Kubernetes API server inside the process: the list and watch
// semantics of the real one, ready in milliseconds, with faults on demand. It is for
// tests of controllers and for demonstrations. Nothing is kept on disk, nobody is
// authenticated and nothing is authorised: do not put it on a network.
//
//	server := apiserver.Start(t, apiserver.Options{})
//	clients, err := kubernetes.NewForConfig(server.Config())
//
// The nouns:
//
//   - [Server] is the whole of it. [New] and [Server.Run] are for programs, [Start] for
//     tests. [Server.Config] is what any client needs. Without an address the server
//     is reached by a connection in memory, which works in a bubble of testing/synctest.
//   - [Options] configure it; the zero value works.
//   - [Definition] describes a custom resource, for [Server.Define]. Posting a
//     CustomResourceDefinition does the same.
//   - [Fault] is something that goes wrong, for [Server.Inject]. [Server.Cut],
//     [Server.Compact] and [Server.Rewind] happen at once. [Server.Random] lets chance
//     choose, by a seed.
//
// # What is like the real server
//
// There is one version for all resources, and a bounded history of changes. A list
// without version is the newest state, at "0" it ignores the limit, at another version
// it is not older than that, or exact with a limit or resourceVersionMatch=Exact. Pages
// stay at the version of the first; once the history no longer reaches back they are
// refused with 410 and a token for an inconsistent remainder. A watch begins with what
// exists, at a version, or as a streaming list with its bookmark; it follows objects in
// and out of the selector; a deletion carries its own version; a watch from before
// the history gets an ERROR event with 410. Versions from the future are refused with 504 after three
// seconds by lists and streaming lists, and waited for by a watch.
//
// Answers are JSON, YAML or protobuf, made by apimachinery's serializers, as objects,
// tables or metadata alone, compressed when they are long and the client takes it.
// Writes know generateName, conflicts, generations, the status and scale subresources,
// dry runs, finalizers, preconditions, grace periods and the four kinds of patch.
// Requests, patches and objects have the size limits of kube-apiserver and etcd.
//
// # What is not
//
// docs/embedded-differences.md lists where answers differ from those of a real server, as
// the tests that compare both find them. In short:
//
//   - Each kind is served in its most stable version only, and versions are not
//     converted into each other, except the events of v1 and events.k8s.io/v1.
//     [Options.EveryVersion] serves all, each stored apart.
//   - There is no admission, no defaulting beyond a first phase, and no validation
//     beyond names and metadata. The schemas of custom resources are neither enforced
//     nor pruned by; all their versions are the same objects.
//   - An update of the status leaves all metadata alone; of some built-in kinds, pods
//     among them, the real one takes labels and annotations too.
//   - A pod without a grace period is gone at once; the real one marks it first, so that
//     watches see a MODIFIED more.
//   - Field ownership is tracked from the first server-side apply of an object on, as
//     early servers did. The lists of custom resources are owned as a whole.
//   - No controllers run, except that deletions are cascaded when
//     [Options.CollectGarbage] is set. Deleting a namespace deletes what is in it.
//   - Pods have no log, exec, attach or port-forward; the API is described by OpenAPI
//     just as far as kubectl needs it to begin.
package apiserver
