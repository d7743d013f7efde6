// Package cronjob is the operator of kubebuilder's tutorial: it runs Jobs on a schedule.
package cronjob

import (
	_ "embed"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// Definition is the CustomResourceDefinition in YAML.
//
//go:embed crd.yaml
var Definition []byte

var builder = &scheme.Builder{GroupVersion: schema.GroupVersion{Group: "batch.tutorial.kubebuilder.io", Version: "v1"}}

// AddToScheme registers the types.
var AddToScheme = builder.Register(&CronJob{}, &CronJobList{}).AddToScheme

// ConcurrencyPolicy says what happens if a Job still runs at the time of the next.
type ConcurrencyPolicy string

// The policies. AllowConcurrent is the default.
const (
	AllowConcurrent   ConcurrencyPolicy = "Allow"
	ForbidConcurrent  ConcurrencyPolicy = "Forbid"
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJob creates Jobs on a schedule.
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec,omitempty"`
	Status            Status `json:"status,omitempty"`
}

// Spec is what a user wants.
type Spec struct {
	Schedule                   string                  `json:"schedule"`
	StartingDeadlineSeconds    *int64                  `json:"startingDeadlineSeconds,omitempty"`
	ConcurrencyPolicy          ConcurrencyPolicy       `json:"concurrencyPolicy,omitempty"`
	Suspend                    *bool                   `json:"suspend,omitempty"`
	JobTemplate                batchv1.JobTemplateSpec `json:"jobTemplate"`
	SuccessfulJobsHistoryLimit *int32                  `json:"successfulJobsHistoryLimit,omitempty"`
	FailedJobsHistoryLimit     *int32                  `json:"failedJobsHistoryLimit,omitempty"`
}

// Status is what the operator observed.
type Status struct {
	Active           []corev1.ObjectReference `json:"active,omitempty"`
	LastScheduleTime *metav1.Time             `json:"lastScheduleTime,omitempty"`
}

// CronJobList is a list of CronJobs.
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronJob `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *CronJob) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopy returns a copy that shares nothing with c.
func (c *CronJob) DeepCopy() *CronJob {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.JobTemplate.DeepCopyInto(&out.Spec.JobTemplate)
	out.Spec.StartingDeadlineSeconds = copied(c.Spec.StartingDeadlineSeconds)
	out.Spec.Suspend = copied(c.Spec.Suspend)
	out.Spec.SuccessfulJobsHistoryLimit = copied(c.Spec.SuccessfulJobsHistoryLimit)
	out.Spec.FailedJobsHistoryLimit = copied(c.Spec.FailedJobsHistoryLimit)
	out.Status.Active = append([]corev1.ObjectReference(nil), c.Status.Active...)
	out.Status.LastScheduleTime = c.Status.LastScheduleTime.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *CronJobList) DeepCopyObject() runtime.Object {
	out := &CronJobList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return out
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
