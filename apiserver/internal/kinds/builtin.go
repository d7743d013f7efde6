package kinds

import (
	"reflect"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/client-go/kubernetes/scheme"
)

// clusterScoped lists the built-in cluster-scoped kinds. The Go API types do not record
// scope.
var clusterScoped = stringSet(`
	ComponentStatus CustomResourceDefinition Namespace Node PersistentVolume
	MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
	SelfSubjectReview TokenReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
	CertificateSigningRequest ClusterTrustBundle FlowSchema PriorityLevelConfiguration StorageVersion
	IPAddress IngressClass ServiceCIDR RuntimeClass ClusterRole ClusterRoleBinding
	DeviceClass DeviceTaintRule ResourcePoolStatusRequest ResourceSlice PriorityClass
	CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass StorageVersionMigration
	PodSecurityPolicy`)

// reviews lists the kinds that are answered and never stored.
var reviews = stringSet(`
	TokenReview SelfSubjectReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
	LocalSubjectAccessReview Binding`)

// scalable lists the kinds with a scale subresource.
var scalable = stringSet(`Deployment ReplicaSet StatefulSet ReplicationController`)

// Versioned lists the kinds whose updates must have a resource version. Those of custom
// resources must as well.
var Versioned = stringSet(`
	CSIDriver CSINode CSIStorageCapacity ClusterTrustBundle CustomResourceDefinition Lease LeaseCandidate MutatingAdmissionPolicy
	MutatingAdmissionPolicyBinding MutatingWebhookConfiguration PodCertificateRequest PodDisruptionBudget
	ResourcePoolStatusRequest RuntimeClass StorageVersion StorageVersionMigration ValidatingAdmissionPolicy
	ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment`)

// ReturnedDeleted lists the kinds whose deletion returns the object instead of a Status.
var ReturnedDeleted = stringSet(`
	CSIDriver CSINode CustomResourceDefinition DeviceClass DeviceTaintRule Namespace PersistentVolume PersistentVolumeClaim Pod PodTemplate
	ResourceClaim ResourceClaimTemplate ResourcePoolStatusRequest ResourceQuota ResourceSlice Service ServiceAccount
	StorageClass VolumeAttachment VolumeAttributesClass`)

// CreatedByUpdate lists the kinds whose update creates an object that does not exist.
var CreatedByUpdate = stringSet(`
	ClusterRole ClusterRoleBinding Endpoints Event Lease LeaseCandidate LimitRange Role RoleBinding RuntimeClass Service`)

// Scheme has the Go types of the built-in kinds.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
}()

// shortNames holds the short names that kubectl accepts.
var shortNames = map[string]string{
	"ComponentStatus": "cs", "ConfigMap": "cm", "Endpoints": "ep", "Event": "ev", "LimitRange": "limits",
	"Namespace": "ns", "Node": "no", "PersistentVolume": "pv", "PersistentVolumeClaim": "pvc", "Pod": "po",
	"ReplicationController": "rc", "ResourceQuota": "quota", "Service": "svc", "ServiceAccount": "sa",
	"DaemonSet": "ds", "Deployment": "deploy", "ReplicaSet": "rs", "StatefulSet": "sts",
	"HorizontalPodAutoscaler": "hpa", "CronJob": "cj", "CertificateSigningRequest": "csr",
	"Ingress": "ing", "NetworkPolicy": "netpol", "PodDisruptionBudget": "pdb", "PriorityClass": "pc",
	"StorageClass": "sc", "VolumeAttributesClass": "vac", "IPAddress": "ip", "CustomResourceDefinition": "crd crds",
}

// categoryAll lists the kinds in kubectl's "all" category.
var categoryAll = stringSet(`
	Pod ReplicationController Service DaemonSet Deployment ReplicaSet StatefulSet HorizontalPodAutoscaler CronJob Job`)

// The Kubernetes version that the server reports.
const (
	ServedMajor = 1
	ServedMinor = 37
)

func stringSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// Builtins returns the kinds of k8s.io/api that have a list type, the reviews and CustomResourceDefinition, in the
// most stable version of each. With strict, only those that kube-apiserver serves by default: kinds with a stable
// version. schemas validates definitions; it may be nil.
func Builtins(strict bool, schemas Schemas) []*Kind {
	known := Scheme.AllKnownTypes()
	best := map[schema.GroupKind]*Kind{}
	var all []*Kind
	for gvk, t := range known {
		list := gvk
		list.Kind += "List"
		if _, listed := known[list]; !listed && !reviews[gvk.Kind] || gvk.Version == "__internal" {
			continue
		}
		if _, object := t.FieldByName("ObjectMeta"); !object {
			continue // discovery types and embedded types
		}
		if gvk.Group == "extensions" {
			continue // all its kinds moved to other groups
		}
		k := newBuiltin(gvk, t)
		k.Strict = strict
		if k.Group == Definitions.Group {
			k.schemas = schemas
		}
		all = append(all, k)
		if b := best[gvk.GroupKind()]; b == nil || version.CompareKubeAwareVersionStrings(k.Version, b.Version) > 0 {
			best[gvk.GroupKind()] = k
		}
	}
	join(all)
	return slices.DeleteFunc(all, func(k *Kind) bool {
		return best[k.GVK().GroupKind()] != k.Storage && best[k.GVK().GroupKind()] != k || strict && strings.Contains(k.Version, "a") // alpha or beta
	})
}

func newBuiltin(gvk schema.GroupVersionKind, t reflect.Type) *Kind {
	plural, singular := meta.UnsafeGuessKindToResource(gvk)
	if gvk.Kind == "Endpoints" {
		plural.Resource = "endpoints"
	}
	k := &Kind{
		Resource: object.Resource{
			Group: gvk.Group, Version: gvk.Version, Resource: plural.Resource, Kind: gvk.Kind, Namespaced: !clusterScoped[gvk.Kind],
		},
		Singular: singular.Resource, Typed: true, Review: reviews[gvk.Kind],
	}
	if empty := k.Empty(); deprecation.IsDeprecated(empty, ServedMajor, ServedMinor) {
		k.Deprecated = deprecation.WarningMessage(empty)
	}
	k.Storage = k
	_, k.Status = t.FieldByName("Status")
	k.Status = k.Status && !k.Review
	if short := shortNames[gvk.Kind]; short != "" {
		k.ShortNames = strings.Fields(short)
	}
	switch {
	case categoryAll[gvk.Kind]:
		k.Categories = []string{"all"}
	case gvk.Group == "admissionregistration.k8s.io" || gvk.Group == Definitions.Group:
		k.Categories = []string{"api-extensions"}
	}
	if scalable[gvk.Kind] {
		k.Scale = &ScalePaths{
			Spec: []string{"spec", "replicas"}, Status: []string{"status", "replicas"}, Selector: []string{"spec", "selector"},
			Versions: managedfields.ResourcePathMappings{},
		}
		for _, gv := range Scheme.VersionsForGroupKind(gvk.GroupKind()) {
			k.Scale.Versions[gv.String()] = ReplicasPath(k.Scale.Spec)
		}
	}
	return k
}

// StatusOnly lists the built-in kinds whose status subresource ignores metadata. That of
// custom resources always does.
var StatusOnly = stringSet(`
	CustomResourceDefinition DeviceTaintRule FlowSchema PodCertificateRequest PodGroup PriorityLevelConfiguration ResourceClaim
	ResourcePoolStatusRequest ServiceCIDR StorageVersion StorageVersionMigration ValidatingAdmissionPolicy VolumeAttachment`)
