package recorder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tarnproject/tarn/wire"
)

// The API's limits, in bytes.
const (
	maxNote     = 1024
	maxInstance = 128
)

// reference returns a reference to an object. Its kind is that of the object's TypeMeta, or
// else that of its Go type.
func reference(obj any) (corev1.ObjectReference, error) {
	if isNil(obj) {
		return corev1.ObjectReference{}, errors.New("the object is nil")
	}
	if ref, ok := obj.(*corev1.ObjectReference); ok {
		return *ref, nil
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return corev1.ObjectReference{}, fmt.Errorf("%T has no metadata", obj)
	}
	ref := corev1.ObjectReference{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
	if k, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		ref.APIVersion, ref.Kind = k.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	}
	if ref.Kind == "" || ref.APIVersion == "" {
		res, ok := wire.ResourceOf(obj)
		if !ok {
			return ref, fmt.Errorf("the kind of %T is unknown; set its TypeMeta, or give it a method APIResource", obj)
		}
		ref.APIVersion, ref.Kind = res.GVK().ToAPIVersionAndKind()
	}
	return ref, nil
}

func isNil(obj any) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// eventName returns a new name for an event about an object. Names are in the order of time, and
// unique, so that a name that exists is one of an earlier attempt.
func eventName(regarding string, at time.Time) string {
	name := fmt.Sprintf("%s.%016x%08x", regarding, at.UnixNano(), rand.Uint32())
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // too long, or a name such as system:node
		return string(uuid.NewUUID())
	}
	return name
}

// truncate returns at most limit bytes of text, without half a character at the end.
func truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
