package cronjob

import (
	"context"

	"github.com/robfig/cron/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxName leaves room for the time that the controller appends to the name of a Job.
const maxName = 63 - 11

// SetupWebhookWithManager adds the defaults and the validation to a manager's webhook server.
func SetupWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &CronJob{}).WithDefaulter(Webhook{}).WithValidator(Webhook{}).Complete()
}

// Webhook sets the defaults of CronJobs and validates them.
type Webhook struct{}

// Default implements admission.Defaulter.
func (Webhook) Default(_ context.Context, c *CronJob) error {
	if c.Spec.ConcurrencyPolicy == "" {
		c.Spec.ConcurrencyPolicy = AllowConcurrent
	}
	if c.Spec.Suspend == nil {
		c.Spec.Suspend = new(bool)
	}
	if c.Spec.SuccessfulJobsHistoryLimit == nil {
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if c.Spec.FailedJobsHistoryLimit == nil {
		c.Spec.FailedJobsHistoryLimit = new(int32(1))
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (Webhook) ValidateCreate(_ context.Context, c *CronJob) (admission.Warnings, error) {
	return nil, validate(c)
}

// ValidateUpdate implements admission.Validator.
func (Webhook) ValidateUpdate(_ context.Context, _, c *CronJob) (admission.Warnings, error) {
	return nil, validate(c)
}

// ValidateDelete implements admission.Validator.
func (Webhook) ValidateDelete(context.Context, *CronJob) (admission.Warnings, error) { return nil, nil }

func validate(c *CronJob) error {
	var errs field.ErrorList
	if len(c.Name) > maxName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
	}
	if _, err := cron.ParseStandard(c.Spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "schedule"), c.Spec.Schedule, err.Error()))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(builder.GroupVersion.WithKind("CronJob").GroupKind(), c.Name, errs)
}
