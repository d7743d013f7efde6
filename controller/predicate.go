package controller

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Predicate says whether a change is worth a reconcile. Of several all must agree. It
// must be quick, and depend on nothing but the event.
type Predicate[T any] func(e informer.Event[T]) bool

// Where lets changes pass of objects that meet a condition, or met it before the change:
// who leaves is told too.
func Where[T any](cond func(obj T) bool) Predicate[T] {
	return func(e informer.Event[T]) bool {
		return cond(e.New()) || e.Kind == object.Updated && cond(e.Old())
	}
}

// AnyOf lets changes pass on which one of the predicates agrees.
func AnyOf[T any](predicates ...Predicate[T]) Predicate[T] {
	return func(e informer.Event[T]) bool {
		return slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return p(e) })
	}
}

// SpecChanged leaves out updates of nothing but the status: those after which the
// generation is the same, and so are labels, annotations, finalizers, owners and deletion
// time. Objects without a generation always pass, and so do updates from one epoch of the
// server's history to the next, whose generations do not compare.
func SpecChanged[T metav1.Object]() Predicate[T] {
	return func(e informer.Event[T]) bool {
		if e.Kind != object.Updated || e.Rewound {
			return true
		}
		a, b := e.Old(), e.New()
		return a.GetGeneration() == 0 || a.GetGeneration() != b.GetGeneration() ||
			!a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) ||
			!maps.Equal(a.GetLabels(), b.GetLabels()) ||
			!maps.Equal(a.GetAnnotations(), b.GetAnnotations()) ||
			!slices.Equal(a.GetFinalizers(), b.GetFinalizers()) ||
			!slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), sameOwner)
	}
}

func sameOwner(a, b metav1.OwnerReference) bool {
	is := func(p *bool) bool { return p != nil && *p }
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		is(a.Controller) == is(b.Controller) && is(a.BlockOwnerDeletion) == is(b.BlockOwnerDeletion)
}
