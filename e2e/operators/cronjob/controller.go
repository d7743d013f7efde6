package cronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ownerIndex is the index of Jobs by the name of the CronJob that controls them.
	ownerIndex = ".metadata.controller"
	// scheduledAt is the annotation of a Job with the time that it was scheduled for.
	scheduledAt = "batch.tutorial.kubebuilder.io/scheduled-at"
	// maxMissed is the number of missed times at which the schedule or the clock is wrong.
	maxMissed = 100
)

// Reconciler creates the Jobs of CronJobs.
type Reconciler struct{ client.Client }

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	owner := func(obj client.Object) []string {
		ref := metav1.GetControllerOf(obj)
		if ref == nil || ref.Kind != "CronJob" || ref.APIVersion != builder.GroupVersion.String() {
			return nil
		}
		return []string{ref.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &batchv1.Job{}, ownerIndex, owner); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&CronJob{}).Owns(&batchv1.Job{}).Named("cronjob").Complete(r)
}

// jobs are the Jobs of a CronJob by their state, the oldest first.
type jobs struct {
	active, successful, failed []batchv1.Job
	last                       *metav1.Time // for which a Job was scheduled
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cronJob CronJob
	if err := r.Get(ctx, req.NamespacedName, &cronJob); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	children, err := r.children(ctx, &cronJob)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.updateStatus(ctx, &cronJob, children); err != nil {
		return ctrl.Result{}, err
	}
	for _, old := range slices.Concat(beyond(children.failed, cronJob.Spec.FailedJobsHistoryLimit),
		beyond(children.successful, cronJob.Spec.SuccessfulJobsHistoryLimit)) {
		if err := r.remove(ctx, &old); err != nil {
			return ctrl.Result{}, err
		}
	}
	if suspend := cronJob.Spec.Suspend; suspend != nil && *suspend {
		return ctrl.Result{}, nil
	}
	now := time.Now()
	missed, next, err := nextSchedule(&cronJob, now)
	if err != nil {
		return ctrl.Result{}, nil // a new spec is needed, so trying again does not help
	}
	wait := ctrl.Result{RequeueAfter: next.Sub(now)}
	if missed.IsZero() {
		return wait, nil
	}
	if limit := cronJob.Spec.StartingDeadlineSeconds; limit != nil && missed.Add(time.Duration(*limit)*time.Second).Before(now) {
		return wait, nil // too late
	}
	switch {
	case cronJob.Spec.ConcurrencyPolicy == ForbidConcurrent && len(children.active) > 0:
		return wait, nil
	case cronJob.Spec.ConcurrencyPolicy == ReplaceConcurrent:
		for _, job := range children.active {
			if err := r.remove(ctx, &job); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	job, err := r.newJob(&cronJob, missed)
	if err != nil {
		return wait, nil // a new spec is needed
	}
	if err := r.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	return wait, nil
}

// children lists the Jobs of a CronJob.
func (r *Reconciler) children(ctx context.Context, cronJob *CronJob) (found jobs, err error) {
	var list batchv1.JobList
	if err := r.List(ctx, &list, client.InNamespace(cronJob.Namespace), client.MatchingFields{ownerIndex: cronJob.Name}); err != nil {
		return jobs{}, err
	}
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return started(a).Compare(started(b)) })
	for _, job := range list.Items {
		switch finished(&job) {
		case "":
			found.active = append(found.active, job)
		case batchv1.JobFailed:
			found.failed = append(found.failed, job)
		case batchv1.JobComplete:
			found.successful = append(found.successful, job)
		}
		if text := job.Annotations[scheduledAt]; text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err == nil && (found.last == nil || found.last.Time.Before(at)) {
				found.last = &metav1.Time{Time: at}
			}
		}
	}
	return found, nil
}

// started returns when a Job started, or was created if it did not.
func started(job batchv1.Job) time.Time {
	if job.Status.StartTime != nil {
		return job.Status.StartTime.Time
	}
	return job.CreationTimestamp.Time
}

// finished returns the condition that ended a Job, or "".
func finished(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// beyond returns the oldest Jobs beyond a limit.
func beyond(all []batchv1.Job, limit *int32) []batchv1.Job {
	if limit == nil {
		return nil
	}
	return all[:max(len(all)-int(*limit), 0)]
}

// remove deletes a Job with its pods.
func (r *Reconciler) remove(ctx context.Context, job *batchv1.Job) error {
	return client.IgnoreNotFound(r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

func (r *Reconciler) updateStatus(ctx context.Context, cronJob *CronJob, children jobs) error {
	cronJob.Status = Status{LastScheduleTime: children.last}
	for _, job := range children.active {
		ref, err := reference.GetReference(r.Scheme(), &job)
		if err != nil {
			return err
		}
		cronJob.Status.Active = append(cronJob.Status.Active, *ref)
	}
	return r.Status().Update(ctx, cronJob)
}

// nextSchedule returns the last time in the schedule for which there is no Job yet, if any, and
// the next.
func nextSchedule(cronJob *CronJob, now time.Time) (missed, next time.Time, err error) {
	schedule, err := cron.ParseStandard(cronJob.Spec.Schedule)
	if err != nil {
		return missed, next, fmt.Errorf("schedule %q: %w", cronJob.Spec.Schedule, err)
	}
	from := cronJob.CreationTimestamp.Time
	if last := cronJob.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if limit := cronJob.Spec.StartingDeadlineSeconds; limit != nil {
		if earliest := now.Add(-time.Duration(*limit) * time.Second); earliest.After(from) {
			from = earliest
		}
	}
	for n := 0; ; n++ {
		at := schedule.Next(from)
		if at.After(now) {
			return missed, at, nil
		}
		if n > maxMissed {
			return missed, next, errors.New("too many missed start times; set or reduce startingDeadlineSeconds, or check the clock")
		}
		missed, from = at, at
	}
}

// newJob returns the Job for a time. Its name is the same each time, so that it is created once.
func (r *Reconciler) newJob(cronJob *CronJob, at time.Time) (*batchv1.Job, error) {
	template := cronJob.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", cronJob.Name, at.Unix()), Namespace: cronJob.Namespace, Labels: template.Labels,
			Annotations: map[string]string{scheduledAt: at.Format(time.RFC3339)},
		},
		Spec: template.Spec,
	}
	maps.Copy(job.Annotations, template.Annotations)
	return job, ctrl.SetControllerReference(cronJob, job, r.Scheme())
}
