package registry

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// serveToken creates a token for a ServiceAccount.
func (s *Registry) serveToken(w http.ResponseWriter, r *request.Request) error {
	raw, err := request.ReadBody(r.Request)
	if err != nil {
		return err
	}
	gvk, admit := kinds.TokenKind.GVK(), s.Webhooks.AdmitSubresource(w, r, kinds.TokenKind)
	obj, _, err := s.Codecs.Decode.Decode(raw, &gvk, nil)
	t, ok := obj.(*authenticationv1.TokenRequest)
	if err != nil || !ok {
		return apierrors.NewBadRequest("the body is not a TokenRequest")
	}
	if err := setNamespace(t, r.Namespace); err != nil {
		return err
	}
	if err := s.isActive(r.Kind, t); err != nil {
		return err
	}
	account := s.Storage.Get(r.Kind, r.Key())
	switch {
	case t.Name != "" && t.Name != r.Name:
		return apierrors.NewInvalid(gvk.GroupKind(), r.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), t.Name, "must match the service account name if specified")})
	case account == nil:
		return kinds.NotFound(r.Kind, r.Name)
	}
	t.TypeMeta = metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
	t.Name, t.UID, t.CreationTimestamp = r.Name, account.Meta.GetUID(), kinds.Now()
	t.Status = authenticationv1.TokenRequestStatus{}
	if obj, err = admit.Change(nil, t); err != nil {
		return err
	}
	t = obj.(*authenticationv1.TokenRequest)
	if len(t.Spec.Audiences) == 0 {
		t.Spec.Audiences = []string{access.Audience}
	}
	if t.Spec.ExpirationSeconds == nil {
		hour := int64(60 * 60)
		t.Spec.ExpirationSeconds = &hour
	}
	path := field.NewPath("spec", "expirationSeconds")
	switch seconds := *t.Spec.ExpirationSeconds; {
	case seconds < 10*60:
		return apierrors.NewInvalid(gvk.GroupKind(), "", field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")})
	case seconds > 1<<32:
		return apierrors.NewInvalid(gvk.GroupKind(), "", field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")})
	}
	if err := admit.Check(nil, t); err != nil {
		return err
	}
	if err := s.Access.Issue(account, t); err != nil {
		return err
	}
	s.Out.Object(w, r.Request, codec.Representation{Encoding: r.Rep.Encoding}, http.StatusCreated, t)
	return nil
}
