package controller

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Finalizer is a name in metadata.finalizers, such as "example.com/volume". An object
// with finalizers that is deleted stays, with a deletion timestamp, until they are removed.
type Finalizer string

// On reports whether the object has the finalizer.
func (f Finalizer) On(obj metav1.Object) bool {
	return slices.Contains(obj.GetFinalizers(), string(f))
}

// Add adds the finalizer to the object, which must not be shared with a cache, and reports
// whether it was missing.
func (f Finalizer) Add(obj metav1.Object) bool {
	if f.On(obj) {
		return false
	}
	obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), string(f)))
	return true
}

// Remove removes the finalizer from the object, which must not be shared with a cache, and
// reports whether it was present.
func (f Finalizer) Remove(obj metav1.Object) bool {
	if !f.On(obj) {
		return false
	}
	obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(s string) bool { return s == string(f) }))
	return true
}

// Finalize maintains the finalizer of an object, which may be shared with a cache. If the
// object is not in deletion, it adds the finalizer if that is missing, and returns the
// current object. If the object is in deletion and has the finalizer, it calls cleanup and,
// if that succeeds, removes the finalizer; deleted is then true, and nothing is left to do. It
// stores the changed object with update, through what tracks its writes.
func Finalize[T Object](ctx context.Context, update func(ctx context.Context, obj T) (T, error), obj T, f Finalizer, cleanup func(ctx context.Context, obj T) error) (now T, deleted bool, err error) {
	deleting := obj.GetDeletionTimestamp() != nil
	if deleting != f.On(obj) {
		return obj, deleting, nil
	}
	if deleting {
		if err := cleanup(ctx, obj); err != nil {
			return obj, true, err
		}
	}
	changed := obj.DeepCopyObject().(T)
	if !deleting {
		f.Add(changed)
		if changed, err = update(ctx, changed); err != nil {
			return obj, false, err
		}
		return changed, false, nil
	}
	f.Remove(changed)
	if changed, err = update(ctx, changed); err != nil {
		if apierrors.IsNotFound(err) {
			return obj, true, nil
		}
		return obj, true, err
	}
	return changed, true, nil
}
