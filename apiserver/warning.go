package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/apiserver/builtin"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// addWarning adds a warning to the response, once even if a write is retried. Like the real
// server, it drops a text of several lines.
func addWarning(w http.ResponseWriter, text string) {
	if strings.Contains(text, "\n") {
		return
	}
	if warning := fmt.Sprintf("299 - %q", text); !slices.Contains(w.Header().Values("Warning"), warning) {
		w.Header().Add("Warning", warning)
	}
}

// deprecation returns the warning for requests to a built-in kind that is deprecated in the
// served version of Kubernetes, or "". obj is of its Go type.
func deprecation(gvk schema.GroupVersionKind, obj any) string {
	deprecated, ok := obj.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return ""
	}
	major, minor := deprecated.APILifecycleDeprecated()
	if served, _ := strconv.Atoi(servedMinor); major != 1 || minor > served {
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

// warn adds the warnings about a valid object of a built-in kind, with Options.Strict. old is
// nil for a new object.
func (a *admission) warn(k *kind, obj, old runtime.Object) {
	if a == nil || !k.strict {
		return
	}
	for _, text := range builtin.Warnings(obj, old) {
		addWarning(a.w, text)
	}
}

// warnFinalizers warns about the names of finalizers that a write adds to a custom resource.
// before is nil for a new object.
func (k *kind) warnFinalizers(w http.ResponseWriter, next, before metav1.Object) {
	if k.typed {
		return
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(next.GetFinalizers()))) {
		if before != nil && slices.Contains(before.GetFinalizers(), name) {
			continue
		}
		warn := func(text string) { addWarning(w, fmt.Sprintf("metadata.finalizers: %q: %s", name, text)) }
		for _, text := range validation.IsQualifiedName(name) {
			warn(text)
		}
		switch {
		case strings.Contains(name, "/") || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents || name == string(corev1.FinalizerKubernetes):
		case strings.Contains(name, "."):
			warn("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
		default:
			warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
		}
	}
}
