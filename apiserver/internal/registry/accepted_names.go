package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// establish sets the status of a CustomResourceDefinition as the controllers of
// kube-apiserver do. It is established once all of its names are accepted. Existing
// stored versions and other conditions are kept.
func (s *Registry) establish(u *unstructured.Unstructured, at metav1.Time) {
	if kinds.Nested[any](u.Object, "spec", "conversion") == nil {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"strategy": "None"}, "spec", "conversion") // spec exists
	}
	names, reason, message := s.acceptNames(u)
	is := kinds.DefinitionCondition("Established", false, "NotAccepted", "not all names are accepted", at)
	if reason == "" || kinds.Established(u) {
		is = kinds.DefinitionCondition("Established", true, "InitialNamesAccepted", "the initial names have been accepted", at)
	}
	accepted := kinds.DefinitionCondition("NamesAccepted", reason == "", reason, message, at)
	if reason == "" {
		accepted = kinds.DefinitionCondition("NamesAccepted", true, "NoConflicts", "no conflicts found", at)
	}
	conditions := []any{accepted, is}
	for _, c := range kinds.Nested[[]any](u.Object, "status", "conditions") {
		if m, _ := c.(map[string]any); m["type"] != "NamesAccepted" && m["type"] != "Established" {
			conditions = append(conditions, c)
		}
	}
	u.Object["status"] = map[string]any{"acceptedNames": names, "storedVersions": kinds.StoredVersions(u), "conditions": conditions}
}

// acceptNames returns the names of a definition without those that another definition of
// the group has, and the reason and message for the last of these.
func (s *Registry) acceptNames(u *unstructured.Unstructured) (names map[string]any, reason, message string) {
	group := kinds.Nested[string](u.Object, "spec", "group")
	wanted := kinds.Nested[map[string]any](u.Object, "spec", "names")
	taken := map[string]bool{} // of the wanted names; kinds are capitalised, resources are not
	for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind"} {
		for _, text := range kinds.Texts(wanted[name]) {
			taken[text] = false
		}
	}
	for _, rec := range s.Storage.All(s.definitions, "") {
		other := rec.Obj.(*unstructured.Unstructured).Object
		if rec.Key.Name == u.GetName() || kinds.Nested[string](other, "spec", "group") != group {
			continue
		}
		has := kinds.Nested[map[string]any](other, "status", "acceptedNames")
		for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind"} {
			for _, text := range kinds.Texts(has[name]) {
				if _, ok := taken[text]; ok {
					taken[text] = true
				}
			}
		}
	}
	before := kinds.Nested[map[string]any](u.Object, "status", "acceptedNames")
	names = map[string]any{}
	for _, name := range []string{"plural", "singular", "shortNames", "kind", "listKind", "categories"} {
		var conflicts []string
		for _, text := range kinds.Texts(wanted[name]) {
			if name != "categories" && taken[text] && !slices.Contains(kinds.Texts(before[name]), text) {
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

// releaseNames accepts the names of other definitions of a group that were in use.
func (s *Registry) releaseNames(group string) (more []gcItem) {
	for _, rec := range s.Storage.All(s.definitions, "") {
		u := rec.Obj.(*unstructured.Unstructured)
		if kinds.Nested[string](u.Object, "spec", "group") == group {
			more = append(more, s.updateMeta(s.definitions, rec.Key, func(metav1.Object) bool { return true })...)
		}
	}
	return more
}
