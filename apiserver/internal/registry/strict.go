package registry

import (
	"errors"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// manage sets the fields of a built-in kind that kube-apiserver manages, with Options.Strict.
// old is nil for a new object.
func (s *Registry) manage(k *kinds.Kind, obj, old runtime.Object) error {
	if !k.Strict {
		return nil
	}
	builtin.Prepare(obj, old)
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil
	}
	before, _ := old.(*corev1.Service)
	if errs := builtin.Allocate(svc, before, servicesOf(s.Storage.All(k, ""))); len(errs) > 0 {
		return apierrors.NewInvalid(k.GVK().GroupKind(), svc.Name, errs)
	}
	return nil
}

func servicesOf(records []*kinds.Record) (services []*corev1.Service) {
	for _, r := range records {
		services = append(services, r.Obj.(*corev1.Service))
	}
	return services
}

// errTaken is the error of checkAllocated. The writer allocates again.
var errTaken = errors.New("another service has got the cluster IP or a node port")

// checkAllocated returns errTaken if a concurrent write has stored a cluster IP or node port that
// manage allocated. The caller must hold the storage lock.
func (s *Registry) checkAllocated(k *kinds.Kind, next runtime.Object, old *kinds.Record) error {
	svc, ok := next.(*corev1.Service)
	if !ok || !k.Strict {
		return nil
	}
	var before *corev1.Service
	if old != nil {
		before = old.Obj.(*corev1.Service)
	}
	if builtin.Taken(svc, before, servicesOf(s.Storage.Records(k))) {
		return errTaken
	}
	return nil
}

// bindable returns the state to validate an update in Go against: it may assign a pod to a
// node, which clients do by a binding.
func bindable(old, next runtime.Object) runtime.Object {
	pod, ok := old.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return old
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = next.(*corev1.Pod).Spec.NodeName
	return bound
}
