// Package builtin has kube-apiserver's defaults, validation and warnings of built-in kinds, and their
// OpenAPI documents. Package apiserver uses it with Options.Strict.
//
// A write on kube-apiserver passes through three steps, and so does one here: [Default] sets
// omitted fields of what a client sent, [Prepare] sets the fields that the server manages, and
// [Validate] returns the errors that a client sees. Paths, types and messages of errors are
// those of kube-apiserver 1.36. e2e/conformance compares them. [Import] precedes Prepare for objects
// of manifests, which kubectl apply would merge.
//
// Covered are Pod and pod templates, Service, ReplicationController, Deployment, ReplicaSet,
// StatefulSet, DaemonSet, Job, CronJob, HorizontalPodAutoscaler, Ingress,
// PersistentVolumeClaim, ConfigMap, Secret, ServiceAccount, Lease, Role, ClusterRole and their
// bindings. Of PersistentVolume, StorageClass, CSIDriver, PriorityClass and IngressClass, and in part of
// others, only the defaults and the immutable fields are covered. Other kinds and versions are neither changed nor validated. Within pods,
// affinity, DNS configuration, resource claims, Windows options, and the content of volume types
// other than configMap, secret, persistentVolumeClaim, hostPath, emptyDir, projected, downwardAPI
// and csi are not validated. Of a status, only that of Deployment, ReplicaSet, StatefulSet,
// DaemonSet, HorizontalPodAutoscaler, Job, Service and Ingress is. A resize of a pod changes the
// resources of its containers, not those of the pod as a whole.
//
// [Warnings] has those about a Service, a TLS Secret, PersistentVolumeClaim, ServiceAccount and
// Ingress, about the names of workloads, and, in pods and pod templates, about labels of nodes,
// selectors of affinity and topology spread, pull secrets, environment variables, ports, fractions of
// bytes and negative grace periods. kube-apiserver also warns about volumes, host aliases, old
// seccomp and AppArmor annotations, node affinity, Nodes, NetworkPolicies and very large Jobs.
package builtin
