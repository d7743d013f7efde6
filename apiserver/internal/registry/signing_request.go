package registry

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// indices returns where the conditions of a type are.
func indices(csr *certificatesv1.CertificateSigningRequest, of certificatesv1.RequestConditionType) (at []int) {
	for i, c := range csr.Status.Conditions {
		if c.Type == of {
			at = append(at, i)
		}
	}
	return at
}

// recordRequester sets the user who creates a CertificateSigningRequest.
func recordRequester(csr *certificatesv1.CertificateSigningRequest, u *access.User) {
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups, csr.Spec.Extra = u.Username, u.UID, slices.Clone(u.Groups), nil
	for key, values := range u.Extra {
		if csr.Spec.Extra == nil {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		csr.Spec.Extra[key] = slices.Clone(certificatesv1.ExtraValue(values))
	}
}

// keepApproval restores the conditions that only the approval subresource changes. Added
// and removed ones are left for checkSigningRequest.
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
			c.LastUpdateTime = kinds.Now()
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = kinds.Now()
			for _, was := range before.Status.Conditions {
				if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
					c.LastTransitionTime = was.LastTransitionTime
					break
				}
			}
		}
	}
}

// checkSigningRequest rejects changes of a CertificateSigningRequest that the subresource
// does not allow. Other objects pass.
func checkSigningRequest(subresource string, next, before runtime.Object) error {
	csr, ok := next.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
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
