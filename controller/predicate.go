package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Predicate reports whether a change is worth a reconcile. With several predicates, all must
// return true. It must be fast and depend on the event only. A change for which it panics is
// reconciled, and the panic reported.
type Predicate[T any] func(e informer.Event[T]) bool

// Where selects changes of objects that meet a condition, or met it before the change. An
// object that stops meeting it is therefore reconciled once more.
func Where[T any](cond func(obj T) bool) Predicate[T] {
	return func(e informer.Event[T]) bool {
		return cond(e.New()) || e.Kind == object.Updated && cond(e.Old())
	}
}

// AnyOf selects changes that at least one of the predicates selects.
func AnyOf[T any](predicates ...Predicate[T]) Predicate[T] {
	return func(e informer.Event[T]) bool {
		return slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return p(e) })
	}
}

// SpecChanged filters out updates that change only the status, as [object.StatusOnly] defines
// it. Objects without a generation always pass, and so do updates across a restore of the
// server's history, whose generations do not compare.
func SpecChanged[T metav1.Object]() Predicate[T] {
	return func(e informer.Event[T]) bool {
		return e.Kind != object.Updated || e.Rewound || !object.StatusOnly(e.Old(), e.New())
	}
}
