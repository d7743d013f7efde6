package kinds

import (
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMeta checks names and metadata.
func (k *Kind) validateMeta(m metav1.Object) field.ErrorList {
	names := validation.NameIsDNSSubdomain
	switch {
	case k.Resource.Resource == "namespaces":
		names = validation.ValidateNamespaceName
	case k.Strict && (k.String() == "services" || k.String() == "statefulsets.apps"):
		names = validation.NameIsDNSLabel
	case k.Group == "rbac.authorization.k8s.io" || k.Group == "flowcontrol.apiserver.k8s.io":
		names = pathSegment
	}
	return validation.ValidateObjectMetaAccessor(m, k.Namespaced, names, field.NewPath("metadata"))
}

// pathSegment validates names that may contain anything a path segment may, such as the
// colons in role names.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// GeneratedBase returns the part of a generateName that is in the name, as kube-apiserver
// shortens it.
func GeneratedBase(generateName string) string { return generateName[:min(len(generateName), 58)] }
