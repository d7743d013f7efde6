// Package workloads runs stand-ins for kube-controller-manager, kube-scheduler and kubelet on
// the embedded API server, so that Deployments get pods and pods become Ready. No container
// runs: the kubelet stand-in only writes statuses, after latencies that the options set. Like
// the server it works in a testing/synctest bubble, in virtual time, and over TCP.
//
//	server := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
//	w := workloads.Start(t, server, workloads.Options{Nodes: 3})
//
// The types:
//
//   - [Workloads] runs the stand-ins. Tests use [Start], programs [New] and [Workloads.Run].
//   - [Options] has the number of nodes and the latencies; the zero value is usable.
//   - [Failure] is a failure for [Workloads.Inject]: containers that crash, images that
//     cannot be pulled, pods that cannot be scheduled, a node that is lost.
//
// All state is in the API server, except for failures, for latencies that have begun, for
// the back-off of a container that has crashed and for the start of taints without timeAdded. A new Workloads on the same server therefore
// continues where another one stopped. Two at a time are not supported.
//
// Deleting what a deleted object owns is the task of the server: set
// apiserver.Options.CollectGarbage.
//
// # What runs
//
//   - Deployments: rolling updates with maxSurge and maxUnavailable, Recreate, revisions,
//     rollback, pause, progress deadline, history limit, and the conditions that kubectl rollout status and
//     kubectl wait read.
//   - ReplicaSets, StatefulSets (ordered and parallel, partitions, volume claims, revisions)
//     and DaemonSets (rolling update, OnDelete, revisions).
//   - Jobs: completions, parallelism, back-off limit, deadline, Indexed, suspend, TTL.
//     CronJobs: schedules with time zones, concurrency policies, deadlines, history limits.
//   - EndpointSlices of Services with a selector. PersistentVolumeClaims become
//     Bound.
//   - Nodes: [Options.Nodes] of them are created, and those that a test creates become Ready
//     too. PodDisruptionBudgets have a status, so that kubectl drain ends. Pods are evicted from nodes with a NoExecute taint, and deleted if their node does
//     not exist.
//   - The scheduler: node selector, cordoned nodes, taints, resource requests. It picks the
//     node with the fewest pods.
//   - The kubelet: Pending, Running and Ready, Succeeded for pods that are not restarted
//     always, restarts with back-off, graceful deletion.
//
// # What differs from Kubernetes
//
//   - Probes, lifecycle hooks and init containers always succeed, at once. All containers of a
//     pod share their fate.
//   - Orphaned ReplicaSets and pods are not adopted, and those whose labels stop matching are
//     not released: the controller reference decides.
//   - Deployments have no condition ReplicaFailure. One that is scaled during its rollout does not
//     keep the share of each template.
//   - A PodDisruptionBudget with a percentage or maxUnavailable needs pods of ReplicaSets or
//     StatefulSets. For pods of custom resources it has the reason SyncFailed; the real
//     controller reads their subresource scale.
//   - StatefulSets: no maxUnavailable, and volume claims are never deleted. DaemonSets: no
//     maxSurge, and their pods are created with a node name.
//   - Jobs: a finished pod that is deleted no longer counts. Pod failure policies, success
//     policies, limits per index and managedBy are ignored.
//   - Affinity, topology spread, priorities, preemption, pod overhead and scheduling gates are
//     ignored by the scheduler.
//   - A lost node is Unknown at once, instead of after 50 seconds. Pods without a toleration
//     for it are evicted after the usual 300 seconds.
//   - A Service has one EndpointSlice, for IPv4, and no Endpoints, which Kubernetes has deprecated.
//     No PersistentVolumes are created. There are no Leases of nodes, and no events: a CronJob that
//     missed more than 100 times starts the last one without a warning.
//   - Negative numbers of replicas, completions and the like count as 0. A real server rejects
//     them, as this one does with apiserver.Options.Strict.
//   - HorizontalPodAutoscalers, quotas and ReplicationControllers are not processed.
package workloads
