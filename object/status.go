package object

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusOnly reports whether two states of an object differ at most in the status and in
// metadata that the server maintains. It compares the generation, which covers the spec,
// and the metadata that controllers act on: labels, annotations, finalizers, owner
// references and the deletion timestamp. It returns false for objects without a generation.
func StatusOnly(old, new metav1.Object) bool {
	return old.GetGeneration() != 0 && old.GetGeneration() == new.GetGeneration() &&
		old.GetDeletionTimestamp().Equal(new.GetDeletionTimestamp()) &&
		maps.Equal(old.GetLabels(), new.GetLabels()) &&
		maps.Equal(old.GetAnnotations(), new.GetAnnotations()) &&
		slices.Equal(old.GetFinalizers(), new.GetFinalizers()) &&
		slices.EqualFunc(old.GetOwnerReferences(), new.GetOwnerReferences(), sameOwner)
}

// sameOwner compares the flags by value: nil means false.
func sameOwner(a, b metav1.OwnerReference) bool {
	set := func(p *bool) bool { return p != nil && *p }
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		set(a.Controller) == set(b.Controller) && set(a.BlockOwnerDeletion) == set(b.BlockOwnerDeletion)
}
