package cli

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/object"
)

// hidden replaces secret values.
const hidden = masking.Hidden

// isSecret reports whether the resource or the object's own kind is Secret.
func isSecret(res object.Resource, obj *unstructured.Unstructured) bool {
	if obj == nil {
		return masking.IsSecret(res, nil)
	}
	return masking.IsSecret(res, obj.Object)
}

// mask returns a copy of a Secret without its values; see [masking.Object]. Other objects are
// returned unchanged. obj itself is not modified, since the mirror shares it.
func mask(res object.Resource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || !isSecret(res, obj) {
		return obj
	}
	content, _ := masking.Object(res, obj.Object, nil)
	return &unstructured.Unstructured{Object: content}
}
