package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// warnFinalizers warns about the names of finalizers that a write adds to a custom resource.
// before is nil for a new object.
func warnFinalizers(k *kinds.Kind, w http.ResponseWriter, next, before metav1.Object) {
	if k.Typed {
		return
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(next.GetFinalizers()))) {
		if before != nil && slices.Contains(before.GetFinalizers(), name) {
			continue
		}
		warn := func(text string) { request.AddWarning(w, fmt.Sprintf("metadata.finalizers: %q: %s", name, text)) }
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
