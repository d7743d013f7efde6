package kinds

import (
	"errors"
	"fmt"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NotFound returns the error for an object that does not exist.
func NotFound(k *Kind, name string) error {
	return apierrors.NewNotFound(k.GVR().GroupResource(), name)
}

// Conflict returns the error for an update of an outdated object.
func Conflict(k *Kind, key object.Key) error {
	return apierrors.NewConflict(k.GVR().GroupResource(), key.Name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// UpdatePreconditionFailed returns the conflict error for an update, in the real server's
// words.
func UpdatePreconditionFailed(k *Kind, key object.Key, what, want, got string) error {
	return apierrors.NewConflict(k.GVR().GroupResource(), key.Name,
		errors.New("Precondition failed: "+what+" in precondition: "+want+", "+what+" in object meta: "+got))
}

// Undecodable is the error for a body that cannot be decoded as a kind.
func Undecodable(k *Kind, got *schema.GroupVersionKind, raw []byte, err error) error {
	if got != nil && got.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, k.Kind, err))
	}
	summary := string(raw)
	switch {
	case len(raw) == 0:
		summary = "<empty>"
	case len(raw) > 30:
		summary = string(raw[:30]) + " ..."
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", k.Kind, err, summary))
}
