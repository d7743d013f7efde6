package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	corev1 "k8s.io/api/core/v1"
)

// namespaceConditions are the conditions of a terminating namespace, in the order in which the namespace
// controller sets them, with reason and message for status False.
var namespaceConditions = []corev1.NamespaceCondition{
	{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
	{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
	{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
	{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
	{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
}

// setNamespaceConditions describes the content that remains, and reports whether a condition changed.
// While pods remain, nothing else has been deleted, and the controller describes no content.
func setNamespaceConditions(ns *corev1.Namespace, remaining []dependent) (changed bool) {
	objects, finalizers := map[string]int{}, map[string]int{}
	for _, o := range remaining {
		objects[o.kind.Resource.Resource+"."+o.kind.Group]++
		for _, f := range o.rec.Meta.GetFinalizers() {
			finalizers[f]++
		}
	}
	if hasPods(remaining) {
		objects, finalizers = nil, nil
	}
	for _, c := range namespaceConditions {
		c.Status, c.LastTransitionTime = corev1.ConditionFalse, kinds.Now()
		fail := func(reason, message, each string, counts map[string]int) {
			var list []string
			for _, name := range slices.Sorted(maps.Keys(counts)) {
				list = append(list, fmt.Sprintf(each, name, counts[name]))
			}
			if len(list) > 0 {
				c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message+strings.Join(list, ", ")
			}
		}
		switch c.Type {
		case corev1.NamespaceContentRemaining:
			fail("SomeResourcesRemain", "Some resources are remaining: ", "%s has %d resource instances", objects)
		case corev1.NamespaceFinalizersRemaining:
			fail("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: ", "%s in %d resource instances", finalizers)
		}
		i := slices.IndexFunc(ns.Status.Conditions, func(was corev1.NamespaceCondition) bool { return was.Type == c.Type })
		if i < 0 {
			ns.Status.Conditions, changed = append(ns.Status.Conditions, c), true
			continue
		}
		was := &ns.Status.Conditions[i]
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		changed = changed || c.Reason != was.Reason || c.Message != was.Message
		*was = c
	}
	return changed
}

func hasPods(objects []dependent) bool {
	return slices.ContainsFunc(objects, func(o dependent) bool { return o.kind.String() == "pods" })
}
