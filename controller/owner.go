package controller

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// OwnedError reports that another owner controls an object.
type OwnedError struct {
	// Key is the key of the object.
	Key object.Key
	// Owner is the current controller reference.
	Owner metav1.OwnerReference
}

// Error names both.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("controller: %s is already controlled by %s %s", e.Key, e.Owner.Kind, e.Owner.Name)
}

// SetOwner sets the controller reference of obj to owner, an object of the given resource, so
// that obj is garbage-collected with it. obj must not be shared with a cache. The error is an
// [*OwnedError] if obj has another controller, or the reason why owner cannot be one.
func SetOwner(obj, owner metav1.Object, resource object.Resource) error {
	key := object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch {
	case owner.GetUID() == "":
		return fmt.Errorf("controller: %s %s has no UID and cannot own %s; it must have been created", resource.Kind, owner.GetName(), key)
	case resource.Kind == "":
		return fmt.Errorf("controller: the resource of %s has no Kind", owner.GetName())
	case owner.GetNamespace() != "" && owner.GetNamespace() != obj.GetNamespace():
		return fmt.Errorf("controller: %s %s/%s cannot own %s in another namespace", resource.Kind, owner.GetNamespace(), owner.GetName(), key)
	}
	if by := metav1.GetControllerOf(obj); by != nil && by.UID != owner.GetUID() {
		return &OwnedError{Key: key, Owner: *by}
	}
	ref := *metav1.NewControllerRef(owner, resource.GVK())
	refs := slices.Clone(obj.GetOwnerReferences())
	if i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	obj.SetOwnerReferences(refs)
	return nil
}

// OwnerOf returns the controller reference of an object.
func OwnerOf(obj metav1.Object) (ref metav1.OwnerReference, ok bool) {
	if by := metav1.GetControllerOf(obj); by != nil {
		return *by, true
	}
	return ref, false
}
