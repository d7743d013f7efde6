package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// nested returns a field of a tree, or the zero value if it is absent or of another type.
func nested[T any](tree map[string]any, path ...string) T {
	v, _, _ := unstructured.NestedFieldNoCopy(tree, path...)
	t, _ := v.(T)
	return t
}

// established reports whether a CustomResourceDefinition is served.
func established(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(nested[[]any](u.Object, "status", "conditions"), func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == "Established" && m["status"] == "True"
	})
}

// startDefinition sets the fields of a new CustomResourceDefinition that kube-apiserver sets
// before its controllers run.
func startDefinition(u *unstructured.Unstructured) *unstructured.Unstructured {
	if nested[any](u.Object, "spec", "conversion") == nil {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"strategy": "None"}, "spec", "conversion") // spec is an object
	}
	u.Object["status"] = map[string]any{
		"acceptedNames": map[string]any{"kind": "", "plural": ""}, "storedVersions": storedVersions(u), "conditions": nil,
	}
	return u
}

// storedVersions returns the versions that objects were ever stored in, including the current one.
func storedVersions(u *unstructured.Unstructured) []any {
	stored := slices.Clone(nested[[]any](u.Object, "status", "storedVersions"))
	for _, v := range nested[[]any](u.Object, "spec", "versions") {
		m, _ := v.(map[string]any)
		if name := nested[string](m, "name"); nested[bool](m, "storage") && !slices.Contains(texts(stored), name) {
			stored = append(stored, name)
		}
	}
	return stored
}

// hasStoredVersions reports whether a definition has the status of a server. Manifests have none
// or an empty one.
func hasStoredVersions(obj runtime.Object) bool {
	return len(nested[[]any](obj.(*unstructured.Unstructured).Object, "status", "storedVersions")) > 0
}

// terminateDefinition sets the condition Terminating.
func terminateDefinition(u *unstructured.Unstructured, at metav1.Time, reason, message string) {
	conditions := slices.DeleteFunc(slices.Clone(nested[[]any](u.Object, "status", "conditions")), isTerminating)
	conditions = append(conditions, condition("Terminating", true, reason, message, at))
	_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions") // status is an object
}

func isTerminating(condition any) bool {
	m, _ := condition.(map[string]any)
	return m["type"] == "Terminating"
}

func condition(kind string, is bool, reason, message string, at metav1.Time) any {
	status := "False"
	if is {
		status = "True"
	}
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at.UTC().Format(time.RFC3339)}
}

// establish sets the status of a CustomResourceDefinition as the controllers of
// kube-apiserver do. It is established once all of its names are accepted. Existing
// stored versions and other conditions are kept.
func (s *Server) establish(u *unstructured.Unstructured, at metav1.Time) {
	if nested[any](u.Object, "spec", "conversion") == nil {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"strategy": "None"}, "spec", "conversion") // spec exists
	}
	names, reason, message := s.acceptNames(u)
	is := condition("Established", false, "NotAccepted", "not all names are accepted", at)
	if reason == "" || established(u) {
		is = condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted", at)
	}
	accepted := condition("NamesAccepted", reason == "", reason, message, at)
	if reason == "" {
		accepted = condition("NamesAccepted", true, "NoConflicts", "no conflicts found", at)
	}
	conditions := []any{accepted, is}
	for _, c := range nested[[]any](u.Object, "status", "conditions") {
		if m, _ := c.(map[string]any); m["type"] != "NamesAccepted" && m["type"] != "Established" {
			conditions = append(conditions, c)
		}
	}
	u.Object["status"] = map[string]any{"acceptedNames": names, "storedVersions": storedVersions(u), "conditions": conditions}
}

// acceptNames returns the names of a definition without those that another definition of
// the group has, and the reason and message for the last of these.
func (s *Server) acceptNames(u *unstructured.Unstructured) (names map[string]any, reason, message string) {
	group := nested[string](u.Object, "spec", "group")
	wanted := nested[map[string]any](u.Object, "spec", "names")
	taken := map[string]bool{} // of the wanted names; kinds are capitalised, resources are not
	for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind"} {
		for _, text := range texts(wanted[name]) {
			taken[text] = false
		}
	}
	for _, rec := range s.storage.all(s.definitions, "") {
		other := rec.obj.(*unstructured.Unstructured).Object
		if rec.key.Name == u.GetName() || nested[string](other, "spec", "group") != group {
			continue
		}
		has := nested[map[string]any](other, "status", "acceptedNames")
		for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind"} {
			for _, text := range texts(has[name]) {
				if _, ok := taken[text]; ok {
					taken[text] = true
				}
			}
		}
	}
	before := nested[map[string]any](u.Object, "status", "acceptedNames")
	names = map[string]any{}
	for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind", "categories"} {
		var conflicts []string
		for _, text := range texts(wanted[name]) {
			if name != "categories" && taken[text] && !slices.Contains(texts(before[name]), text) {
				conflicts = append(conflicts, fmt.Sprintf("%q is already in use", text))
			}
		}
		from := wanted
		if len(conflicts) > 0 {
			reason = strings.ToUpper(name[:1]) + name[1:] + "Conflict"
			message = strings.Join(conflicts, ", ")
			if len(conflicts) > 1 {
				message = "[" + message + "]"
			}
			from = before
		}
		if from[name] != nil {
			names[name] = from[name]
		}
	}
	return names, reason, message
}

// texts returns a string or the strings of a list.
func texts(v any) (out []string) {
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

// releaseNames accepts the names of other definitions of a group that were in use.
func (s *Server) releaseNames(group string) (more []gcItem) {
	for _, rec := range s.storage.all(s.definitions, "") {
		u := rec.obj.(*unstructured.Unstructured)
		if nested[string](u.Object, "spec", "group") == group {
			more = append(more, s.updateMeta(s.definitions, rec.key, func(metav1.Object) bool { return true })...)
		}
	}
	return more
}
