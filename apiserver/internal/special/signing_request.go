package special

import (
	"bytes"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// signingRequest has the rules of CertificateSigningRequests.
type signingRequest struct{ plain }

func (signingRequest) Request(obj runtime.Object, by *authenticationv1.UserInfo) {
	csr := obj.(*certificatesv1.CertificateSigningRequest)
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups, csr.Spec.Extra = by.Username, by.UID, slices.Clone(by.Groups), nil
	for key, values := range by.Extra {
		if csr.Spec.Extra == nil {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		csr.Spec.Extra[key] = slices.Clone(certificatesv1.ExtraValue(values))
	}
}

func (signingRequest) Keep(subresource string, next, old runtime.Object) {
	if subresource == "" {
		next.(*certificatesv1.CertificateSigningRequest).Spec = old.(*certificatesv1.CertificateSigningRequest).Spec
	}
}

func (signingRequest) Copy(subresource string, to, from runtime.Object, _ bool) {
	if subresource == "approval" {
		to.(*certificatesv1.CertificateSigningRequest).Status.Conditions = from.(*certificatesv1.CertificateSigningRequest).Status.Conditions
	}
}

func (signingRequest) Settle(subresource string, next, old runtime.Object) {
	csr, was := next.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	if subresource == "status" {
		keepApproval(csr, was)
	}
	dateConditions(csr, was)
}

// indices returns where the conditions of a type are.
func indices(csr *certificatesv1.CertificateSigningRequest, of certificatesv1.RequestConditionType) (at []int) {
	for i, c := range csr.Status.Conditions {
		if c.Type == of {
			at = append(at, i)
		}
	}
	return at
}

// keepApproval restores the conditions that only the approval subresource changes. Added
// and removed ones are left for Check.
func keepApproval(csr, before *certificatesv1.CertificateSigningRequest) {
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		is, was := indices(csr, t), indices(before, t)
		for i := range is {
			if len(is) == len(was) {
				csr.Status.Conditions[is[i]] = before.Status.Conditions[was[i]]
			}
		}
	}
}

// dateConditions sets the missing times of conditions. A condition whose status did not
// change keeps the time of its transition.
func dateConditions(csr, before *certificatesv1.CertificateSigningRequest) {
	for i := range csr.Status.Conditions {
		c := &csr.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = metav1.Now().Rfc3339Copy()
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.Now().Rfc3339Copy()
			for _, was := range before.Status.Conditions {
				if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
					c.LastTransitionTime = was.LastTransitionTime
					break
				}
			}
		}
	}
}

// Check rejects changes of the conditions and the certificate that the subresource does
// not allow.
func (signingRequest) Check(subresource string, next, before runtime.Object) error {
	csr := next.(*certificatesv1.CertificateSigningRequest)
	was := before.(*certificatesv1.CertificateSigningRequest)
	conditions := field.NewPath("status", "conditions")
	var errs field.ErrorList
	decided := false
	for _, c := range csr.Status.Conditions {
		if c.Type != certificatesv1.CertificateApproved && c.Type != certificatesv1.CertificateDenied {
			continue
		}
		if decided {
			errs = append(errs, field.Invalid(conditions, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		decided = true
	}
	all := []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}
	for _, t := range all {
		if len(indices(csr, t)) < len(indices(was, t)) {
			errs = append(errs, field.Forbidden(conditions, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	for _, t := range all[:2] {
		if subresource == "status" && len(indices(csr, t)) > len(indices(was, t)) {
			errs = append(errs, field.Forbidden(conditions, fmt.Sprintf("updates may not add a condition of type %q", t)))
		}
	}
	if len(was.Status.Certificate) > 0 && !bytes.Equal(csr.Status.Certificate, was.Status.Certificate) {
		errs = append(errs, field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify existing certificate content"))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind(), csr.Name, errs)
}
