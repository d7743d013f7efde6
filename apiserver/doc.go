// Package apiserver is an in-process Kubernetes API server for tests and demos. It has the
// list and watch semantics of kube-apiserver, starts in milliseconds and injects faults on
// demand. It stores nothing on disk, and authenticates and authorizes clients only with
// [Options.RBAC]: do not expose it on a network.
//
//	server := apiserver.Start(t, apiserver.Options{})
//	clients, err := kubernetes.NewForConfig(server.Config())
//
// Importing the package removes the rate limit of the error handlers in
// k8s.io/apimachinery/pkg/util/runtime, which do not work in a bubble, and limits what the patches of
// gopkg.in/evanphx/json-patch.v4 may copy, as kube-apiserver does.
//
// The main types:
//
//   - [Server] is the server. Programs use [New] and [Server.Run], tests use [Start].
//     [Server.Config] returns a client config. Without an address, clients connect in
//     memory, which works in a testing/synctest bubble.
//   - [Options] configures it; the zero value is usable. [Options.Strict] defaults and
//     validates built-in kinds, [Schemas] enforces the schemas of custom resources.
//   - [Definition] describes a custom resource for [Server.Define]. Creating a
//     CustomResourceDefinition has the same effect.
//   - [Fault] is a failure for [Server.Inject]. [Server.Cut], [Server.Compact] and
//     [Server.Rewind] take effect immediately. [Server.Random] injects random faults from a
//     seed.
//   - [Server.Import] and [Server.Restore] make changes that no client can make.
//   - [Process] is a client that can be killed. [Server.Supervise] starts a program again
//     after that, and [Explore] runs a test of a controller once for each of its writes, with
//     a crash just before and just after it.
//   - [Server.ConfigFor] and [Server.ServiceAccountConfig] are clients whose permissions
//     [Options.RBAC] evaluates; [Server.Denied] lists what they lacked. [Server.HandleWebhook]
//     serves admission webhooks in this process.
//   - [Replay] serves a recording of package journal, to run a controller on what happened in a cluster.
//   - [Server.Load] creates the objects of files, and [Server.Dump] returns those of the server as
//     text that is the same in every run.
//
// # Inside
//
// The package has the server and what tests need of it: options, faults, processes, exploring, dumps. What a
// Kubernetes API is stands in packages below apiserver/internal, each of which imports only earlier ones:
//
//	special    what differs for single built-in kinds: Rules
//	kinds      what is served: Kind, Catalog, Record
//	storage    objects and the history of their changes: Storage, Page, Watcher
//	codec      encodings: Codecs, Representation;  table: tables for kubectl
//	access     who a client is and what it may do: Control
//	request    what a client sends: Request;  response: what it receives: Responder
//	patch, ownership, admission    patches, managed fields, webhooks
//	registry   reads and writes of objects: Registry;  discovery: what there is;  dump: their text
//
// Defaults, validation and warnings of built-in kinds are in apiserver/builtin.
//
// # What matches kube-apiserver
//
// All resources share one resource version counter and a bounded history of changes. A list
// without a resource version returns the latest state. At "0" it ignores the limit. At any
// other version it returns a state that is not older, or exactly that version if it has a
// limit or resourceVersionMatch=Exact. All pages of a list are at the version of the first.
// When that version leaves the history, the next page gets 410 with a token that continues
// at the latest version.
//
// A watch starts with the existing objects, at a version, or as a streaming list that ends
// with a bookmark. It sends ADDED and DELETED for objects that start or stop matching the
// selector. A DELETED event carries the version of the deletion. A watch from before the
// history gets an ERROR event with 410. For a version in the future, lists and streaming
// lists return 504 after three seconds; a watch waits for it.
//
// Lists, watches and streaming lists honour shardSelector, as kube-apiserver 1.36 does with the feature
// gate ShardedListAndWatch. [Options.NoSharding] ignores it.
//
// Responses are JSON, YAML or protobuf, encoded by apimachinery's serializers, as objects,
// tables or metadata only. Long responses are compressed if the client accepts it. Writes
// support generateName, conflicts, generations, dry runs, finalizers, preconditions, grace
// periods and all four patch types. The size limits of requests, patches and objects are
// those of kube-apiserver and etcd.
//
// The subresources are status and scale of all kinds that have them, binding, eviction,
// ephemeralcontainers and resize of pods, approval of certificate signing requests, and
// finalize of namespaces. An update of a Service, Endpoints, Event, Lease, LimitRange,
// RuntimeClass, role or binding creates the object if it does not exist. An eviction honours the pod's disruption budget, whose status
// package apiserver/workloads or the test writes. Responses have the warnings of deprecated kinds, unknown
// and duplicate fields, names of finalizers and, with [Options.Strict], questionable fields.
//
// A CustomResourceDefinition is established when its creation returns. A deleted one is
// terminating until none of its objects remain.
//
// # What does not
//
// docs/embedded-differences.md lists every difference that the comparison tests find. In
// short:
//
//   - Only the most stable version of each kind is served, with [Options.Strict] only if it is
//     stable, and versions are not converted, except for events in v1 and events.k8s.io/v1, and
//     HorizontalPodAutoscalers in autoscaling/v1 and v2.
//   - Without [Options.Strict], built-in kinds have no defaulting except
//     for the initial phase, and no validation except for names and metadata. Package
//     apiserver/builtin lists the kinds that it covers.
//   - The webhooks of stored configurations are called for all writes of clients.
//     matchConditions are rejected. The server's own writes, such as cascading deletions and those of [Server.Create],
//     call no webhook and need no permission. Of the other admission plugins there is only the
//     lifecycle of namespaces, and admission policies are not evaluated.
//   - With [Options.RBAC], only the ClusterRoles cluster-admin, admin, edit, view and those that
//     discovery needs exist. An aggregated ClusterRole is evaluated with the rules that it
//     selects, which its object does not show.
//   - Schemas of custom resources are enforced with [Options.Schemas] only; package
//     apiserver/crd has the implementation. Conversion webhooks are not called: the versions
//     of a custom resource differ only in apiVersion and schema.
//   - Managed fields have the managers of all clients, but not the server itself: not in its own
//     objects, such as the first namespaces and the status of CustomResourceDefinitions, and not in those of
//     [Server.Create]. Without schemas, and in CustomResourceDefinitions, lists are atomic.
//   - No controllers run, except for cascading deletion with [Options.CollectGarbage] and the
//     stand-ins of package apiserver/workloads. Deleting a namespace deletes its content, unless
//     [Options.KeepNamespaces] is set; clients cannot delete default, kube-system and kube-public.
//     [Options.NoControllers] is for tests that were written for envtest.
//   - Tables have the columns of kube-apiserver for pods, workloads other than ReplicationControllers, autoscalers, services,
//     ingresses, endpoints, volumes, claims, storage classes, config maps, secrets, quotas,
//     disruption budgets, leases, roles, bindings, service accounts, nodes and namespaces, some of
//     them for events, and name and age for other built-in kinds.
//   - Pods have no log, exec, attach or port-forward, and nothing is proxied; discovery lists
//     these subresources. OpenAPI describes custom resources with
//     a schema and the types of built-in kinds. Of operations it contains only what kubectl needs.
package apiserver
