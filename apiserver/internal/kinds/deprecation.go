package kinds

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// deprecation returns the warning for requests to a built-in kind that is deprecated in the
// served version of Kubernetes, or "". obj is of its Go type.
func deprecation(gvk schema.GroupVersionKind, obj any) string {
	deprecated, ok := obj.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return ""
	}
	major, minor := deprecated.APILifecycleDeprecated()
	if served, _ := strconv.Atoi(ServedMinor); major != 1 || minor > served {
		return ""
	}
	warning := fmt.Sprintf("%s %s is deprecated in v%d.%d+", gvk.GroupVersion(), gvk.Kind, major, minor)
	if removed, ok := obj.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		if major, minor := removed.APILifecycleRemoved(); major > 0 {
			warning += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	if replaced, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		if by := replaced.APILifecycleReplacement(); !by.Empty() {
			warning += fmt.Sprintf("; use %s %s", by.GroupVersion(), by.Kind)
		}
	}
	return warning
}

// The Kubernetes version that the server reports.
const (
	ServedMajor = "1"
	ServedMinor = "37"
)
