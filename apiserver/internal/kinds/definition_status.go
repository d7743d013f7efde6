package kinds

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Nested returns a field of a tree, or the zero value if it is absent or of another type.
func Nested[T any](tree map[string]any, path ...string) T {
	v, _, _ := unstructured.NestedFieldNoCopy(tree, path...)
	t, _ := v.(T)
	return t
}

// Established reports whether a CustomResourceDefinition is served.
func Established(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(Nested[[]any](u.Object, "status", "conditions"), func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == "Established" && m["status"] == "True"
	})
}

// StartDefinition sets the fields of a new CustomResourceDefinition that kube-apiserver sets
// before its controllers run.
func StartDefinition(u *unstructured.Unstructured) *unstructured.Unstructured {
	if Nested[any](u.Object, "spec", "conversion") == nil {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"strategy": "None"}, "spec", "conversion") // spec is an object
	}
	u.Object["status"] = map[string]any{
		"acceptedNames": map[string]any{"kind": "", "plural": ""}, "storedVersions": StoredVersions(u), "conditions": nil,
	}
	return u
}

// StoredVersions returns the versions that objects were ever stored in, including the current one.
func StoredVersions(u *unstructured.Unstructured) []any {
	stored := slices.Clone(Nested[[]any](u.Object, "status", "storedVersions"))
	for _, v := range Nested[[]any](u.Object, "spec", "versions") {
		m, _ := v.(map[string]any)
		if name := Nested[string](m, "name"); Nested[bool](m, "storage") && !slices.Contains(Texts(stored), name) {
			stored = append(stored, name)
		}
	}
	return stored
}

// HasStoredVersions reports whether a definition has the status of a server. Manifests have none
// or an empty one.
func HasStoredVersions(obj runtime.Object) bool {
	return len(Nested[[]any](obj.(*unstructured.Unstructured).Object, "status", "storedVersions")) > 0
}

// TerminateDefinition sets the condition Terminating.
func TerminateDefinition(u *unstructured.Unstructured, at metav1.Time, reason, message string) {
	conditions := slices.DeleteFunc(slices.Clone(Nested[[]any](u.Object, "status", "conditions")), isTerminating)
	conditions = append(conditions, DefinitionCondition("Terminating", true, reason, message, at))
	_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions") // status is an object
}

func isTerminating(condition any) bool {
	m, _ := condition.(map[string]any)
	return m["type"] == "Terminating"
}

// DefinitionCondition returns a condition of a CustomResourceDefinition.
func DefinitionCondition(kind string, is bool, reason, message string, at metav1.Time) any {
	status := "False"
	if is {
		status = "True"
	}
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at.UTC().Format(time.RFC3339)}
}

// Texts returns a string or the strings of a list.
func Texts(v any) (out []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, each := range list {
		if text, ok := each.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
