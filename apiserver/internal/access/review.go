package access

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Answer sets the status of a review that a user sends. Its namespace is that of the request.
func (s *Control) Answer(u *User, obj runtime.Object) error {
	var errs field.ErrorList
	switch o := obj.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status, errs = s.review(u, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		o.Status, errs = s.reviewSubject(&o.Spec)
	case *authorizationv1.LocalSubjectAccessReview:
		o.Status, errs = s.reviewSubject(&o.Spec)
		if a := o.Spec.ResourceAttributes; a != nil && a.Namespace != o.Namespace {
			errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
		}
		if o.Spec.NonResourceAttributes != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), o.Spec.NonResourceAttributes, "disallowed on this kind of request"))
		}
	case *authorizationv1.SelfSubjectRulesReview:
		if o.Spec.Namespace == "" {
			return apierrors.NewBadRequest("no namespace on request")
		}
		o.Status = s.reviewRules(u, o.Spec.Namespace)
		o.Spec = authorizationv1.SelfSubjectRulesReviewSpec{}
	case *authenticationv1.SelfSubjectReview:
		o.CreationTimestamp = kinds.Now()
		o.Status.UserInfo = *u
	case *authenticationv1.TokenReview:
		if o.Spec.Token == "" {
			return apierrors.NewBadRequest("token is required for TokenReview in authentication")
		}
		o.Status = s.reviewToken(o.Spec)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: obj.GetObjectKind().GroupVersionKind().Group}, "", errs)
	}
	return nil
}

// reviewSubject answers whether the user of a spec may do something.
func (s *Control) reviewSubject(spec *authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, field.ErrorList) {
	status, errs := s.review(&User{Username: spec.User, Groups: spec.Groups}, spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), "", "at least one of user or group must be specified"))
	}
	return status, errs
}

// review answers whether a user may do something.
func (s *Control) review(u *User, resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) (status authorizationv1.SubjectAccessReviewStatus, errs field.ErrorList) {
	switch spec := field.NewPath("spec"); {
	case resource != nil && other != nil:
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), struct{ Path, Verb string }{other.Path, other.Verb}, "cannot be specified in combination with resourceAttributes"))
	case resource == nil && other == nil:
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), other, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	default:
		status.Allowed, status.Reason = s.allowed(u, ofReview(resource, other))
	}
	return status, errs
}

// reviewRules returns what a user may do in a namespace.
func (s *Control) reviewRules(u *User, namespace string) (status authorizationv1.SubjectRulesReviewStatus) {
	status.ResourceRules, status.NonResourceRules = []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}
	grants := []grant{{rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}}}
	if s.evaluates {
		grants = s.rbac.of(s.storage, u, namespace)
	}
	for _, g := range grants {
		if g.missing != nil {
			status.EvaluationError = g.missing.Error()
		}
		for _, rule := range g.rules {
			if len(rule.Resources) > 0 {
				status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
					Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames})
			}
			if len(rule.NonResourceURLs) > 0 {
				status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
			}
		}
	}
	return status
}

// reviewToken returns the user of a token.
func (s *Control) reviewToken(spec authenticationv1.TokenReviewSpec) (status authenticationv1.TokenReviewStatus) {
	audiences := spec.Audiences
	if len(audiences) == 0 {
		audiences = []string{Audience}
	}
	u, matching, err := s.userOfToken(spec.Token, audiences)
	if err != nil {
		status.Error = err.Error()
		return status
	}
	status.Authenticated, status.User, status.Audiences = true, *u, matching
	return status
}
