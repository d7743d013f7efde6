package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// establish sets the status of a CustomResourceDefinition as the controllers of
// kube-apiserver do. It is established once all of its names are accepted. Existing
// stored versions and other conditions are kept.
func (s *Registry) establish(d *kinds.Definition, at metav1.Time) {
	names, reason, message := s.acceptNames(d)
	was, others := kinds.Established(d), d.Status.Conditions
	d.Status = apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names, StoredVersions: kinds.StoredVersions(d), ObservedGeneration: d.Status.ObservedGeneration}
	if reason == "" {
		kinds.SetCondition(d, apiextensionsv1.NamesAccepted, true, "NoConflicts", "no conflicts found", at)
	} else {
		kinds.SetCondition(d, apiextensionsv1.NamesAccepted, false, reason, message, at)
	}
	if reason == "" || was {
		kinds.SetCondition(d, apiextensionsv1.Established, true, "InitialNamesAccepted", "the initial names have been accepted", at)
	} else {
		kinds.SetCondition(d, apiextensionsv1.Established, false, "NotAccepted", "not all names are accepted", at)
	}
	for _, c := range others {
		if c.Type != apiextensionsv1.NamesAccepted && c.Type != apiextensionsv1.Established {
			d.Status.Conditions = append(d.Status.Conditions, c)
		}
	}
}

// claimed returns the names that no other definition of a group may have.
func claimed(n *apiextensionsv1.CustomResourceDefinitionNames) []string {
	return append([]string{n.Plural, n.Singular, n.Kind, n.ListKind}, n.ShortNames...)
}

// acceptNames returns the names of a definition without those that another definition of
// the group has, and the reason and message for the last of these.
func (s *Registry) acceptNames(d *kinds.Definition) (names apiextensionsv1.CustomResourceDefinitionNames, reason, message string) {
	taken := map[string]bool{"": false} // kinds are capitalised, resources are not
	for _, rec := range s.Storage.All(s.definitions, "") {
		if other := rec.Obj.(*kinds.Definition); other.Name != d.Name && other.Spec.Group == d.Spec.Group {
			for _, text := range claimed(&other.Status.AcceptedNames) {
				taken[text] = text != ""
			}
		}
	}
	names, before := d.Spec.Names, &d.Status.AcceptedNames
	accept := func(field string, wanted, had []string) bool {
		var conflicts []string
		for _, text := range wanted {
			if taken[text] && !slices.Contains(had, text) {
				conflicts = append(conflicts, fmt.Sprintf("%q is already in use", text))
			}
		}
		if len(conflicts) == 0 {
			return true
		}
		reason, message = field+"Conflict", strings.Join(conflicts, ", ")
		if len(conflicts) > 1 {
			message = "[" + message + "]"
		}
		return false
	}
	one := func(field string, name *string, had string) {
		if !accept(field, []string{*name}, []string{had}) {
			*name = had
		}
	}
	one("Plural", &names.Plural, before.Plural)
	one("Singular", &names.Singular, before.Singular)
	if !accept("ShortNames", names.ShortNames, before.ShortNames) {
		names.ShortNames = before.ShortNames
	}
	one("Kind", &names.Kind, before.Kind)
	one("ListKind", &names.ListKind, before.ListKind)
	return names, reason, message
}

// releaseNames accepts the names of other definitions of a group that were in use.
func (s *Registry) releaseNames(group string) (more []gcItem) {
	for _, rec := range s.Storage.All(s.definitions, "") {
		if rec.Obj.(*kinds.Definition).Spec.Group == group {
			more = append(more, s.updateMeta(s.definitions, rec.Key, func(metav1.Object) bool { return true })...)
		}
	}
	return more
}
