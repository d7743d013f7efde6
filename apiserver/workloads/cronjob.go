package workloads

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/wire"
)

func (w *Workloads) addCronJobs() error {
	return w.add("cronjobs", w.reconcileCronJob, tarn.For(w.cronJobs.Mirror), tarn.Owns(w.jobs.Mirror))
}

func (w *Workloads) reconcileCronJob(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	cron, ok := w.cronJobs.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	times, err := parseSchedule(cron.Spec.Schedule)
	if err != nil {
		return tarn.Result{}, controller.Terminal(err)
	}
	zone, err := time.LoadLocation(cmp.Or(value(cron.Spec.TimeZone, ""), "UTC"))
	if err != nil {
		return tarn.Result{}, controller.Terminal(err)
	}
	next := cron.DeepCopy()
	running, err := w.history(ctx, next)
	if err != nil {
		return tarn.Result{}, err
	}
	var after time.Duration
	if !value(cron.Spec.Suspend, false) {
		now := time.Now().In(zone)
		due := lastDue(cron, times, now)
		if !due.IsZero() {
			if err := w.startJob(ctx, next, running, due); err != nil {
				return tarn.Result{}, err
			}
		}
		if at := times.after(now); times.every > 0 {
			after = time.Until(times.after(cmp.Or(value(next.Status.LastScheduleTime, cron.CreationTimestamp), cron.CreationTimestamp).Time))
		} else if !at.IsZero() {
			after = time.Until(at)
		}
	}
	return tarn.Result{After: after}, w.cronJobs.setStatus(ctx, cron, next)
}

// lastDue returns the last scheduled time for which no Job was started, or zero.
func lastDue(cron *batchv1.CronJob, times schedule, now time.Time) (due time.Time) {
	last := cron.CreationTimestamp.Time
	if cron.Status.LastScheduleTime != nil {
		last = cron.Status.LastScheduleTime.Time
	}
	if limit := cron.Spec.StartingDeadlineSeconds; limit != nil {
		if earliest := now.Add(-time.Duration(*limit) * time.Second); earliest.After(last) {
			last = earliest
		}
	}
	for at := times.after(last.In(now.Location())); !at.IsZero() && !at.After(now); at = times.after(at) {
		due = at
	}
	return due
}

// history sets the active Jobs of the status and deletes finished ones beyond the limits. It
// returns the Jobs that run.
func (w *Workloads) history(ctx context.Context, cron *batchv1.CronJob) (running []*batchv1.Job, err error) {
	var complete, failed []*batchv1.Job
	cron.Status.Active = nil
	for _, job := range w.jobs.of(cron) {
		switch done, _ := jobFinished(job); {
		case !done:
			running = append(running, job)
			cron.Status.Active = append(cron.Status.Active, corev1.ObjectReference{
				APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID})
		case jobCondition(job, batchv1.JobFailed) == corev1.ConditionTrue:
			failed = append(failed, job)
		default:
			complete = append(complete, job)
			if at := job.Status.CompletionTime; at != nil && (cron.Status.LastSuccessfulTime == nil || cron.Status.LastSuccessfulTime.Before(at)) {
				cron.Status.LastSuccessfulTime = at.DeepCopy()
			}
		}
	}
	for _, list := range []struct {
		jobs []*batchv1.Job
		keep int32
	}{{complete, value(cron.Spec.SuccessfulJobsHistoryLimit, 3)}, {failed, value(cron.Spec.FailedJobsHistoryLimit, 1)}} {
		for i := range len(list.jobs) - int(list.keep) {
			if err := w.jobs.remove(ctx, list.jobs[i], tarn.Propagate(wire.Background)); err != nil {
				return nil, err
			}
		}
	}
	return running, nil
}

// startJob starts the Job of a scheduled time, unless the concurrency policy prevents it.
func (w *Workloads) startJob(ctx context.Context, cron *batchv1.CronJob, running []*batchv1.Job, due time.Time) error {
	switch cron.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(running) > 0 {
			return nil
		}
	case batchv1.ReplaceConcurrent:
		for _, job := range running {
			if err := w.jobs.remove(ctx, job, tarn.Propagate(wire.Background)); err != nil {
				return err
			}
		}
		cron.Status.Active = nil
	}
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: fmt.Sprintf("%s-%d", cron.Name, due.Unix()/60), Labels: template.Labels,
			Annotations: with(template.Annotations, batchv1.CronJobScheduledTimestampAnnotation, due.Format(time.RFC3339)),
		},
		Spec: template.Spec,
	}
	if err := w.cronJobs.client.SetOwner(job, cron); err != nil {
		return err
	}
	created, err := w.jobs.client.Create(ctx, job)
	switch {
	case apierrors.IsAlreadyExists(err): // created before a restart
	case err != nil:
		return err
	case !slices.ContainsFunc(cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == created.UID }):
		cron.Status.Active = append(cron.Status.Active, corev1.ObjectReference{
			APIVersion: "batch/v1", Kind: "Job", Namespace: created.Namespace, Name: created.Name, UID: created.UID})
	}
	cron.Status.LastScheduleTime = &metav1.Time{Time: due}
	return nil
}
