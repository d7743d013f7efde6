// Package tarn keeps a live, indexed, in-memory mirror of a Kubernetes API's resources and
// drives workers from its changes. The package itself has the few calls that most programs
// need; the parts they are made of are below it.
//
//		cluster, err := tarn.Connect(tarn.Options{}) // the cluster that kubectl would talk to
//		byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
//		pods, err := tarn.Informer[*corev1.Pod](cluster, tarn.WithIndex(byNode), tarn.Drop(object.ManagedFields))
//		go cluster.Run(ctx)
//		err = cluster.WaitSynced(ctx) // says why not: "pods is forbidden: …"
//		for p := range byNode.Get(pods.Snapshot(), "node-7") {
//			fmt.Println(p.Name)
//		}
//
//	  - [Cluster] is an API server and the mirrors of it. [Connect] finds the one to use,
//	    [Cluster.Run] owns all that goes on, [Cluster.WaitSynced] waits for all mirrors and
//	    tells what keeps them, [Cluster.Status] shows them, and [Cluster.RBAC] prints the
//	    rights that they need.
//	  - [Handle] is one user's part of a mirror. [Informer] returns one for a Go type,
//	    [InformerOf] for a wire.Resource, [InformerByName] and [MetadataByName] for what
//	    people call a resource. All who ask for the same share one mirror, which stops with
//	    the last handle.
//	  - [Option] says what a mirror is to cover and hold.
//
// A resource that is not served, because its CustomResourceDefinition is still to come, is
// waited for; its mirror is [Waiting] and says for what. If it is removed while it is
// mirrored, subscribers are told of the deletions, and the mirror waits for its return.
//
// # The parts
//
// Data flows down. Each package's output is the next one's input; which may import
// which is a table in internal/arch, and a test.
//
//	API server
//	   │
//	wire         bytes to items: key, version, object
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
// All of them speak in the nouns of package object. A Cluster puts them together down to the
// informer; controllers take the informers that it runs: controller.For(pods.Informer()).
//
// The nouns, in the order in which a reader meets them:
//
//   - object.Key names an object: namespace and name.
//   - object.Version is a resource version: opaque text that compares only where
//     the API promises an order. object.Mark is a point in a history of versions.
//   - object.Accessor tells how to read key, UID, version and labels of a value.
//     Neither delta nor store requires Kubernetes' own types.
//   - object.Item, object.List and object.Event are what a list or a watch yields.
//   - delta.Delta is one change of one object, delta.Batch is everything that
//     changed until a version; package delta queues them.
//   - wire.Client speaks HTTP with an API server, wire.Resource says of what, and
//     wire.API has the verbs. wire.Source lists and watches.
//   - reflector.Source lists and watches; reflector.Reflector turns one into deltas,
//     as a state machine that goes on whatever breaks.
//   - Package store applies batches as transactions and hands out snapshots, which
//     never change, to readers who never wait.
//   - informer.Informer is the live mirror: it joins all of these, and shares one store
//     among any number of readers and subscribers.
//   - workqueue.Queue holds the keys that workers are to look at.
//   - controller.Controller has the workers, controller.Source says which keys, and
//     controller.Fence whether this process may work at all.
package tarn
