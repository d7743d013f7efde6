package wire

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// builtinRoot is the module of the Go types of the built-in kinds.
const builtinRoot = "k8s.io/api/"

// builtin returns the resource of a Go type of k8s.io/api. It compares names of types, so that a
// program links only the API packages that it uses itself. The tests compare the rules with
// client-go's generated clients.
func builtin(t reflect.Type) (object.Resource, bool) {
	kind, ok := builtinKind(t)
	if !ok || slices.Contains(builtinParts, typeName(t)) {
		return object.Resource{}, false
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return object.Resource{
		Group: kind.Group, Version: kind.Version, Resource: plural.Resource, Kind: kind.Kind, Namespaced: !slices.Contains(clusterScoped, kind.Kind),
	}, true
}

// builtinKind returns the kind of a Go type of k8s.io/api that has one.
func builtinKind(t reflect.Type) (schema.GroupVersionKind, bool) {
	name := typeName(t)
	group, ok := builtinGroups[strings.Split(name, "/")[0]]
	ptr := reflect.PointerTo(t)
	if !ok || !ptr.Implements(reflect.TypeFor[metav1.Object]()) || !ptr.Implements(reflect.TypeFor[kinded]()) {
		return schema.GroupVersionKind{}, false
	}
	return schema.GroupVersionKind{Group: group, Version: path.Base(t.PkgPath()), Kind: t.Name()}, true
}

// typeName returns the name of a Go type of k8s.io/api, such as "core/v1.Pod"; "" for any other.
func typeName(t reflect.Type) string {
	pkg, ok := strings.CutPrefix(t.PkgPath(), builtinRoot)
	if !ok {
		return ""
	}
	return pkg + "." + t.Name()
}

// builtinGroups are the API groups of the folders of k8s.io/api that have resources.
var builtinGroups = map[string]string{
	"admissionregistration": "admissionregistration.k8s.io",
	"apiserverinternal":     "internal.apiserver.k8s.io",
	"apps":                  "apps",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"autoscaling":           "autoscaling",
	"batch":                 "batch",
	"certificates":          "certificates.k8s.io",
	"coordination":          "coordination.k8s.io",
	"core":                  "",
	"discovery":             "discovery.k8s.io",
	"events":                "events.k8s.io",
	"extensions":            "extensions",
	"flowcontrol":           "flowcontrol.apiserver.k8s.io",
	"lifecycle":             "lifecycle.k8s.io",
	"networking":            "networking.k8s.io",
	"node":                  "node.k8s.io",
	"policy":                "policy",
	"rbac":                  "rbac.authorization.k8s.io",
	"resource":              "resource.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"storage":               "storage.k8s.io",
	"storagemigration":      "storagemigration.k8s.io",
}

// builtinParts are the kinds of k8s.io/api that have no resource of their own: most of them are
// subresources.
var builtinParts = []string{
	"apps/v1beta1.Scale",
	"apps/v1beta2.Scale",
	"authentication/v1.TokenRequest",
	"autoscaling/v1.Scale",
	"core/v1.PodStatusResult",
	"core/v1.RangeAllocation",
	"extensions/v1beta1.Scale",
	"policy/v1.Eviction",
	"policy/v1beta1.Eviction",
}

// clusterScoped are the kinds of k8s.io/api whose objects are in no namespace.
var clusterScoped = []string{
	"CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle", "ComponentStatus",
	"DeviceClass", "DeviceTaintRule", "FlowSchema", "IPAddress", "IngressClass", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration",
	"ResourcePoolStatusRequest", "ResourceSlice", "RuntimeClass", "SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview",
	"ServiceCIDR", "StorageClass", "StorageVersion", "StorageVersionMigration", "SubjectAccessReview", "TokenReview",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass",
}
