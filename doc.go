// Package tarn keeps a live, indexed, in-memory mirror of a Kubernetes API's resources and
// drives workers from its changes. This package has the few calls that most programs need;
// its subpackages are the building blocks.
//
//	cluster, err := tarn.Connect() // the cluster that kubectl would talk to
//	pods, err := tarn.MirrorOf[*corev1.Pod](cluster)
//	byNode := tarn.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
//	pods.AddIndex(byNode)
//	go cluster.Run(ctx)
//	err = cluster.WaitSynced(ctx) // says why not: "pods is forbidden: …"
//	for p := range byNode.Get(pods.Snapshot(), "node-7") {
//		fmt.Println(p.Name)
//	}
//
// The types:
//
//   - [Cluster] is an API server with its mirrors and controllers. [Connect] loads the
//     configuration, [Cluster.Run] owns all goroutines, [Cluster.WaitSynced] blocks until every
//     mirror is synced and otherwise names each that is not and why, [Cluster.Status] reports on
//     them, and [Cluster.RBAC] returns the permissions that they need.
//   - [Mirror] is a live copy of a resource. [MirrorOf] returns one for a Go type,
//     [MirrorResource] for a wire.Resource, [MirrorByName] and [MirrorMetadata] for a resource
//     name such as "deploy". Equal requests share one mirror, which stops when its last user has
//     closed it. What it returns is shared and read-only.
//   - [Client] reads copies from a mirror and writes to the server. Its reads are never older
//     than its writes.
//   - [Controller] calls a reconcile function for the keys that [For], [Owns] and [Watches]
//     select. [NewController] creates one, and the cluster runs it.
//   - [Fleet] is a set of clusters that come and go while it runs. [NewFleetController] creates a
//     controller that works on all of them.
//   - [Option] selects what a mirror covers and how it holds objects.
//
// A mirror of a resource that the server does not serve, for example because its
// CustomResourceDefinition does not exist yet, is [Waiting] until the server does. If the
// resource is removed later, subscribers receive the deletions, and the mirror waits again.
//
// # Several clusters
//
// A controller of a [Fleet] has one queue and one pool of workers for all clusters, and clusters
// with work take turns. For each cluster its join function declares mirrors, and a reconcile
// function with its sources, as for one cluster:
//
//	fleet := tarn.NewFleet()
//	_, err := tarn.NewFleetController(fleet, "audit", func(m *tarn.Member) error {
//		pods, err := tarn.MirrorOf[*corev1.Pod](m.Cluster)
//		if err != nil {
//			return err
//		}
//		return m.Reconcile(newAudit(m.Name, pods.Client()), tarn.For(pods))
//	}, tarn.Workers(8))
//	go fleet.Run(ctx)
//	err = fleet.Add("eu-1", cluster)     // at any time
//	err = fleet.Remove(ctx, "eu-1")
//
// Each cluster syncs, leads (see [WithLeaderElection]) and fails on its own; [Fleet.Status] reports on
// each. Keys in logs, metrics and Status are a [FleetKey] such as "eu-1:shop/web".
//
// # The parts
//
// Data flows down: each package's output is the next one's input. A test in internal/arch
// enforces which package may import which.
//
//	API server
//	   │
//	wire         REST client: requests, retries, errors, credentials
//	   │
//	wire/stream  lists and watches: bytes to items with key, UID, version, object
//	   │
//	reflector    list and watch
//	   │
//	delta        pending changes per key, in order, taken in batches
//	   │
//	store        immutable snapshots and typed indexes, one writer
//	   │
//	informer     one mirror, many subscribers
//	   │
//	workqueue    keys to work on: once each, delayed, rate-limited, by priority
//	   │
//	controller   workers
//
// All of them use the types of package object, and a Cluster connects them.
//
// The main types, from the wire to the controller:
//
//   - object.Key names an object: namespace and name.
//   - object.Version is a resource version: opaque text that compares only where
//     the API promises an order. object.Mark is a point in a history of versions.
//   - object.Accessor reads key, UID, version and labels of a value. Neither delta nor
//     store requires Kubernetes' own types.
//   - object.Item, object.List and object.Event are what a list or a watch returns.
//   - object.Change is one change of one object, from the reflector to the last subscriber.
//     object.Batch is a sequence of changes and the version reached with them.
//   - wire.Client is the HTTP client of an API server, wire.Resource describes a resource,
//     and wire.API has its verbs. stream.Source lists and watches it.
//   - reflector.Source lists and watches; reflector.Reflector turns it into changes. It is
//     a state machine that retries every failure.
//   - delta.Buffer queues the changes between reflector and store.
//   - Package store applies batches as transactions. Its snapshots never change, and
//     reading them takes no lock.
//   - informer.Informer is the live mirror: it connects all of these and shares one store
//     among any number of readers and subscribers.
//   - workqueue.Queue holds the keys to reconcile.
//   - controller.Controller has the workers, controller.Source supplies their keys, and
//     controller.Fence reports whether this process may work (leader election).
package tarn
