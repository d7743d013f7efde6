package registry

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serveReview answers a review, or assigns a pod by a Binding.
func (s *Registry) serveReview(w http.ResponseWriter, r *request.Request, obj runtime.Object) error {
	if err := setNamespace(kinds.MetaOf(obj), r.Namespace); err != nil {
		return err
	}
	if binding, ok := obj.(*corev1.Binding); ok {
		pods, err := s.KindOf(&corev1.Pod{})
		if err != nil {
			return err
		}
		if err := s.isActive(r.Kind, binding); err != nil {
			return err
		}
		admit := s.Webhooks.Admit(w, r)
		if obj, err = admit.Change(nil, binding); err != nil {
			return err
		}
		return s.bindPod(w, r, pods, obj.(*corev1.Binding), admit)
	}
	if err := s.Access.Answer(access.UserOf(r.Context()), obj); err != nil {
		return err
	}
	s.Out.Object(w, r.Request, codec.Representation{Encoding: r.Rep.Encoding}, http.StatusCreated, obj)
	return nil
}
