package special

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Rules are the rules of one kind. The objects that they are called with are of that kind.
type Rules interface {
	// Normalise applies the effects that conversion has on the real server.
	Normalise(obj runtime.Object)
	// Start sets the status of a new object.
	Start(obj runtime.Object)
	// Request records the user who creates an object.
	Request(obj runtime.Object, by *authenticationv1.UserInfo)
	// Protection is the finalizer that keeps an object in use, or "".
	Protection() string
	// Keep restores the fields of old that a write of the whole object, or through the subresource
	// finalize, does not change.
	Keep(subresource string, next, old runtime.Object)
	// Copy copies the fields that a subresource other than status writes. With strict, validation follows.
	Copy(subresource string, to, from runtime.Object, strict bool)
	// Settle completes an object that was written through a subresource.
	Settle(subresource string, next, old runtime.Object)
	// Check rejects a change that validation does not know.
	Check(subresource string, next, old runtime.Object) error
	// GracePeriod returns the seconds between the deletion of an object and its removal.
	GracePeriod(obj runtime.Object, opts *metav1.DeleteOptions) int64
	// MarkedFirst reports whether watches see the deletion of an object before its removal, although it has
	// no grace period.
	MarkedFirst() bool
	// StaysMarked reports whether the deletion of an object without finalizers does not remove it.
	StaysMarked(obj runtime.Object) bool
	// Mark completes an object that was marked for deletion.
	Mark(obj runtime.Object)
}

// Of returns the rules of an object.
func Of(obj runtime.Object) Rules {
	switch obj.(type) {
	case *corev1.Pod:
		return pod{}
	case *corev1.Namespace:
		return namespace{}
	case *corev1.Secret:
		return secret{}
	case *corev1.PersistentVolume:
		return volume{}
	case *corev1.PersistentVolumeClaim:
		return claim{}
	case *storagev1.VolumeAttributesClass:
		return attributesClass{}
	case *apiextensionsv1.CustomResourceDefinition:
		return definition{}
	case *certificatesv1.CertificateSigningRequest:
		return signingRequest{}
	}
	return plain{}
}

// plain has the rules of kinds that need none.
type plain struct{}

func (plain) Normalise(runtime.Object)                                {}
func (plain) Start(runtime.Object)                                    {}
func (plain) Request(runtime.Object, *authenticationv1.UserInfo)      {}
func (plain) Protection() string                                      { return "" }
func (plain) Keep(string, runtime.Object, runtime.Object)             {}
func (plain) Copy(string, runtime.Object, runtime.Object, bool)       {}
func (plain) Settle(string, runtime.Object, runtime.Object)           {}
func (plain) Check(string, runtime.Object, runtime.Object) error      { return nil }
func (plain) GracePeriod(runtime.Object, *metav1.DeleteOptions) int64 { return 0 }
func (plain) MarkedFirst() bool                                       { return false }
func (plain) StaysMarked(runtime.Object) bool                         { return false }
func (plain) Mark(runtime.Object)                                     {}
