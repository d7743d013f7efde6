package wire

import (
	"path"
	"reflect"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// builtinRoot is the module of the Go types of the built-in kinds.
const builtinRoot = "k8s.io/api/"

// builtinKind is a row of the table of built-in kinds. The last element of pkg is the version.
type builtinKind struct {
	pkg, kind  string // the Go type
	group      string
	plural     string
	namespaced bool
}

// builtin returns the resource of a Go type of k8s.io/api. It compares names of types, so that a
// program links only the API packages that it uses itself.
func builtin(t reflect.Type) (object.Resource, bool) {
	pkg, ok := strings.CutPrefix(t.PkgPath(), builtinRoot)
	if !ok {
		return object.Resource{}, false
	}
	for i := range builtins {
		if b := &builtins[i]; b.pkg == pkg && b.kind == t.Name() {
			return object.Resource{
				Group: b.group, Version: path.Base(b.pkg), Resource: b.plural, Kind: b.kind, Namespaced: b.namespaced,
			}, true
		}
	}
	return object.Resource{}, false
}

// builtins are the kinds that have a resource. Kinds that exist only as a subresource (Eviction,
// Scale) or as part of others are not included. A test compares the table with client-go's
// generated clients and prints the correct one.
var builtins = [...]builtinKind{
	{"admissionregistration/v1", "MutatingAdmissionPolicy", "admissionregistration.k8s.io", "mutatingadmissionpolicies", false},
	{"admissionregistration/v1", "MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", false},
	{"admissionregistration/v1", "MutatingWebhookConfiguration", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", false},
	{"admissionregistration/v1", "ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "validatingadmissionpolicies", false},
	{"admissionregistration/v1", "ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", false},
	{"admissionregistration/v1", "ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "validatingwebhookconfigurations", false},
	{"admissionregistration/v1alpha1", "MutatingAdmissionPolicy", "admissionregistration.k8s.io", "mutatingadmissionpolicies", false},
	{"admissionregistration/v1alpha1", "MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", false},
	{"admissionregistration/v1alpha1", "ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "validatingadmissionpolicies", false},
	{"admissionregistration/v1alpha1", "ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", false},
	{"admissionregistration/v1beta1", "MutatingAdmissionPolicy", "admissionregistration.k8s.io", "mutatingadmissionpolicies", false},
	{"admissionregistration/v1beta1", "MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", false},
	{"admissionregistration/v1beta1", "MutatingWebhookConfiguration", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", false},
	{"admissionregistration/v1beta1", "ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "validatingadmissionpolicies", false},
	{"admissionregistration/v1beta1", "ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", false},
	{"admissionregistration/v1beta1", "ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "validatingwebhookconfigurations", false},
	{"apiserverinternal/v1alpha1", "StorageVersion", "internal.apiserver.k8s.io", "storageversions", false},
	{"apps/v1", "ControllerRevision", "apps", "controllerrevisions", true},
	{"apps/v1", "DaemonSet", "apps", "daemonsets", true},
	{"apps/v1", "Deployment", "apps", "deployments", true},
	{"apps/v1", "ReplicaSet", "apps", "replicasets", true},
	{"apps/v1", "StatefulSet", "apps", "statefulsets", true},
	{"apps/v1beta1", "ControllerRevision", "apps", "controllerrevisions", true},
	{"apps/v1beta1", "Deployment", "apps", "deployments", true},
	{"apps/v1beta1", "StatefulSet", "apps", "statefulsets", true},
	{"apps/v1beta2", "ControllerRevision", "apps", "controllerrevisions", true},
	{"apps/v1beta2", "DaemonSet", "apps", "daemonsets", true},
	{"apps/v1beta2", "Deployment", "apps", "deployments", true},
	{"apps/v1beta2", "ReplicaSet", "apps", "replicasets", true},
	{"apps/v1beta2", "StatefulSet", "apps", "statefulsets", true},
	{"authentication/v1", "SelfSubjectReview", "authentication.k8s.io", "selfsubjectreviews", false},
	{"authentication/v1", "TokenReview", "authentication.k8s.io", "tokenreviews", false},
	{"authentication/v1alpha1", "SelfSubjectReview", "authentication.k8s.io", "selfsubjectreviews", false},
	{"authentication/v1beta1", "SelfSubjectReview", "authentication.k8s.io", "selfsubjectreviews", false},
	{"authentication/v1beta1", "TokenReview", "authentication.k8s.io", "tokenreviews", false},
	{"authorization/v1", "LocalSubjectAccessReview", "authorization.k8s.io", "localsubjectaccessreviews", true},
	{"authorization/v1", "SelfSubjectAccessReview", "authorization.k8s.io", "selfsubjectaccessreviews", false},
	{"authorization/v1", "SelfSubjectRulesReview", "authorization.k8s.io", "selfsubjectrulesreviews", false},
	{"authorization/v1", "SubjectAccessReview", "authorization.k8s.io", "subjectaccessreviews", false},
	{"authorization/v1beta1", "LocalSubjectAccessReview", "authorization.k8s.io", "localsubjectaccessreviews", true},
	{"authorization/v1beta1", "SelfSubjectAccessReview", "authorization.k8s.io", "selfsubjectaccessreviews", false},
	{"authorization/v1beta1", "SelfSubjectRulesReview", "authorization.k8s.io", "selfsubjectrulesreviews", false},
	{"authorization/v1beta1", "SubjectAccessReview", "authorization.k8s.io", "subjectaccessreviews", false},
	{"autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling", "horizontalpodautoscalers", true},
	{"autoscaling/v2", "HorizontalPodAutoscaler", "autoscaling", "horizontalpodautoscalers", true},
	{"batch/v1", "CronJob", "batch", "cronjobs", true},
	{"batch/v1", "Job", "batch", "jobs", true},
	{"batch/v1beta1", "CronJob", "batch", "cronjobs", true},
	{"certificates/v1", "CertificateSigningRequest", "certificates.k8s.io", "certificatesigningrequests", false},
	{"certificates/v1", "ClusterTrustBundle", "certificates.k8s.io", "clustertrustbundles", false},
	{"certificates/v1", "PodCertificateRequest", "certificates.k8s.io", "podcertificaterequests", true},
	{"certificates/v1alpha1", "ClusterTrustBundle", "certificates.k8s.io", "clustertrustbundles", false},
	{"certificates/v1beta1", "CertificateSigningRequest", "certificates.k8s.io", "certificatesigningrequests", false},
	{"certificates/v1beta1", "ClusterTrustBundle", "certificates.k8s.io", "clustertrustbundles", false},
	{"certificates/v1beta1", "PodCertificateRequest", "certificates.k8s.io", "podcertificaterequests", true},
	{"coordination/v1", "Lease", "coordination.k8s.io", "leases", true},
	{"coordination/v1alpha2", "LeaseCandidate", "coordination.k8s.io", "leasecandidates", true},
	{"coordination/v1beta1", "Lease", "coordination.k8s.io", "leases", true},
	{"coordination/v1beta1", "LeaseCandidate", "coordination.k8s.io", "leasecandidates", true},
	{"core/v1", "Binding", "", "bindings", true},
	{"core/v1", "ComponentStatus", "", "componentstatuses", false},
	{"core/v1", "ConfigMap", "", "configmaps", true},
	{"core/v1", "Endpoints", "", "endpoints", true},
	{"core/v1", "Event", "", "events", true},
	{"core/v1", "LimitRange", "", "limitranges", true},
	{"core/v1", "Namespace", "", "namespaces", false},
	{"core/v1", "Node", "", "nodes", false},
	{"core/v1", "PersistentVolume", "", "persistentvolumes", false},
	{"core/v1", "PersistentVolumeClaim", "", "persistentvolumeclaims", true},
	{"core/v1", "Pod", "", "pods", true},
	{"core/v1", "PodTemplate", "", "podtemplates", true},
	{"core/v1", "ReplicationController", "", "replicationcontrollers", true},
	{"core/v1", "ResourceQuota", "", "resourcequotas", true},
	{"core/v1", "Secret", "", "secrets", true},
	{"core/v1", "Service", "", "services", true},
	{"core/v1", "ServiceAccount", "", "serviceaccounts", true},
	{"discovery/v1", "EndpointSlice", "discovery.k8s.io", "endpointslices", true},
	{"discovery/v1beta1", "EndpointSlice", "discovery.k8s.io", "endpointslices", true},
	{"events/v1", "Event", "events.k8s.io", "events", true},
	{"events/v1beta1", "Event", "events.k8s.io", "events", true},
	{"extensions/v1beta1", "DaemonSet", "extensions", "daemonsets", true},
	{"extensions/v1beta1", "Deployment", "extensions", "deployments", true},
	{"extensions/v1beta1", "Ingress", "extensions", "ingresses", true},
	{"extensions/v1beta1", "NetworkPolicy", "extensions", "networkpolicies", true},
	{"extensions/v1beta1", "ReplicaSet", "extensions", "replicasets", true},
	{"flowcontrol/v1", "FlowSchema", "flowcontrol.apiserver.k8s.io", "flowschemas", false},
	{"flowcontrol/v1", "PriorityLevelConfiguration", "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", false},
	{"flowcontrol/v1beta1", "FlowSchema", "flowcontrol.apiserver.k8s.io", "flowschemas", false},
	{"flowcontrol/v1beta1", "PriorityLevelConfiguration", "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", false},
	{"flowcontrol/v1beta2", "FlowSchema", "flowcontrol.apiserver.k8s.io", "flowschemas", false},
	{"flowcontrol/v1beta2", "PriorityLevelConfiguration", "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", false},
	{"flowcontrol/v1beta3", "FlowSchema", "flowcontrol.apiserver.k8s.io", "flowschemas", false},
	{"flowcontrol/v1beta3", "PriorityLevelConfiguration", "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", false},
	{"lifecycle/v1alpha1", "Eviction", "lifecycle.k8s.io", "evictions", true},
	{"lifecycle/v1alpha1", "EvictionRequest", "lifecycle.k8s.io", "evictionrequests", true},
	{"networking/v1", "IPAddress", "networking.k8s.io", "ipaddresses", false},
	{"networking/v1", "Ingress", "networking.k8s.io", "ingresses", true},
	{"networking/v1", "IngressClass", "networking.k8s.io", "ingressclasses", false},
	{"networking/v1", "NetworkPolicy", "networking.k8s.io", "networkpolicies", true},
	{"networking/v1", "ServiceCIDR", "networking.k8s.io", "servicecidrs", false},
	{"networking/v1beta1", "IPAddress", "networking.k8s.io", "ipaddresses", false},
	{"networking/v1beta1", "Ingress", "networking.k8s.io", "ingresses", true},
	{"networking/v1beta1", "IngressClass", "networking.k8s.io", "ingressclasses", false},
	{"networking/v1beta1", "ServiceCIDR", "networking.k8s.io", "servicecidrs", false},
	{"node/v1", "RuntimeClass", "node.k8s.io", "runtimeclasses", false},
	{"node/v1alpha1", "RuntimeClass", "node.k8s.io", "runtimeclasses", false},
	{"node/v1beta1", "RuntimeClass", "node.k8s.io", "runtimeclasses", false},
	{"policy/v1", "PodDisruptionBudget", "policy", "poddisruptionbudgets", true},
	{"policy/v1beta1", "PodDisruptionBudget", "policy", "poddisruptionbudgets", true},
	{"rbac/v1", "ClusterRole", "rbac.authorization.k8s.io", "clusterroles", false},
	{"rbac/v1", "ClusterRoleBinding", "rbac.authorization.k8s.io", "clusterrolebindings", false},
	{"rbac/v1", "Role", "rbac.authorization.k8s.io", "roles", true},
	{"rbac/v1", "RoleBinding", "rbac.authorization.k8s.io", "rolebindings", true},
	{"rbac/v1alpha1", "ClusterRole", "rbac.authorization.k8s.io", "clusterroles", false},
	{"rbac/v1alpha1", "ClusterRoleBinding", "rbac.authorization.k8s.io", "clusterrolebindings", false},
	{"rbac/v1alpha1", "Role", "rbac.authorization.k8s.io", "roles", true},
	{"rbac/v1alpha1", "RoleBinding", "rbac.authorization.k8s.io", "rolebindings", true},
	{"rbac/v1beta1", "ClusterRole", "rbac.authorization.k8s.io", "clusterroles", false},
	{"rbac/v1beta1", "ClusterRoleBinding", "rbac.authorization.k8s.io", "clusterrolebindings", false},
	{"rbac/v1beta1", "Role", "rbac.authorization.k8s.io", "roles", true},
	{"rbac/v1beta1", "RoleBinding", "rbac.authorization.k8s.io", "rolebindings", true},
	{"resource/v1", "DeviceClass", "resource.k8s.io", "deviceclasses", false},
	{"resource/v1", "DeviceTaintRule", "resource.k8s.io", "devicetaintrules", false},
	{"resource/v1", "ResourceClaim", "resource.k8s.io", "resourceclaims", true},
	{"resource/v1", "ResourceClaimTemplate", "resource.k8s.io", "resourceclaimtemplates", true},
	{"resource/v1", "ResourceSlice", "resource.k8s.io", "resourceslices", false},
	{"resource/v1alpha3", "DeviceTaintRule", "resource.k8s.io", "devicetaintrules", false},
	{"resource/v1alpha3", "ResourcePoolStatusRequest", "resource.k8s.io", "resourcepoolstatusrequests", false},
	{"resource/v1beta1", "DeviceClass", "resource.k8s.io", "deviceclasses", false},
	{"resource/v1beta1", "ResourceClaim", "resource.k8s.io", "resourceclaims", true},
	{"resource/v1beta1", "ResourceClaimTemplate", "resource.k8s.io", "resourceclaimtemplates", true},
	{"resource/v1beta1", "ResourceSlice", "resource.k8s.io", "resourceslices", false},
	{"resource/v1beta2", "DeviceClass", "resource.k8s.io", "deviceclasses", false},
	{"resource/v1beta2", "DeviceTaintRule", "resource.k8s.io", "devicetaintrules", false},
	{"resource/v1beta2", "ResourceClaim", "resource.k8s.io", "resourceclaims", true},
	{"resource/v1beta2", "ResourceClaimTemplate", "resource.k8s.io", "resourceclaimtemplates", true},
	{"resource/v1beta2", "ResourceSlice", "resource.k8s.io", "resourceslices", false},
	{"scheduling/v1", "PriorityClass", "scheduling.k8s.io", "priorityclasses", false},
	{"scheduling/v1alpha3", "CompositePodGroup", "scheduling.k8s.io", "compositepodgroups", true},
	{"scheduling/v1alpha3", "PodGroup", "scheduling.k8s.io", "podgroups", true},
	{"scheduling/v1alpha3", "Workload", "scheduling.k8s.io", "workloads", true},
	{"scheduling/v1beta1", "PodGroup", "scheduling.k8s.io", "podgroups", true},
	{"scheduling/v1beta1", "PriorityClass", "scheduling.k8s.io", "priorityclasses", false},
	{"scheduling/v1beta1", "Workload", "scheduling.k8s.io", "workloads", true},
	{"storage/v1", "CSIDriver", "storage.k8s.io", "csidrivers", false},
	{"storage/v1", "CSINode", "storage.k8s.io", "csinodes", false},
	{"storage/v1", "CSIStorageCapacity", "storage.k8s.io", "csistoragecapacities", true},
	{"storage/v1", "StorageClass", "storage.k8s.io", "storageclasses", false},
	{"storage/v1", "VolumeAttachment", "storage.k8s.io", "volumeattachments", false},
	{"storage/v1", "VolumeAttributesClass", "storage.k8s.io", "volumeattributesclasses", false},
	{"storage/v1alpha1", "CSIStorageCapacity", "storage.k8s.io", "csistoragecapacities", true},
	{"storage/v1alpha1", "VolumeAttachment", "storage.k8s.io", "volumeattachments", false},
	{"storage/v1alpha1", "VolumeAttributesClass", "storage.k8s.io", "volumeattributesclasses", false},
	{"storage/v1beta1", "CSIDriver", "storage.k8s.io", "csidrivers", false},
	{"storage/v1beta1", "CSINode", "storage.k8s.io", "csinodes", false},
	{"storage/v1beta1", "CSIStorageCapacity", "storage.k8s.io", "csistoragecapacities", true},
	{"storage/v1beta1", "StorageClass", "storage.k8s.io", "storageclasses", false},
	{"storage/v1beta1", "VolumeAttachment", "storage.k8s.io", "volumeattachments", false},
	{"storage/v1beta1", "VolumeAttributesClass", "storage.k8s.io", "volumeattributesclasses", false},
	{"storagemigration/v1", "StorageVersionMigration", "storagemigration.k8s.io", "storageversionmigrations", false},
	{"storagemigration/v1beta1", "StorageVersionMigration", "storagemigration.k8s.io", "storageversionmigrations", false},
}
