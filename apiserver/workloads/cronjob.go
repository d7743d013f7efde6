package workloads

import (
	"cmp"
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/cron"
	"github.com/tarnproject/tarn/wire"
)

func (w *Workloads) addCronJobs() error {
	return w.add("cronjobs", w.reconcileCronJob, tarn.For(w.cronJobs.Mirror), tarn.Owns(w.jobs.Mirror))
}

func (w *Workloads) reconcileCronJob(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	cronJob, ok := w.cronJobs.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	schedule, err := cron.Parse(cronJob.Spec.Schedule)
	if err != nil {
		return tarn.Result{}, controller.Terminal(err)
	}
	zone, err := time.LoadLocation(cmp.Or(value(cronJob.Spec.TimeZone, ""), "UTC"))
	if err != nil {
		return tarn.Result{}, controller.Terminal(err)
	}
	next := cronJob.DeepCopy()
	running, err := w.history(ctx, next)
	if err != nil {
		return tarn.Result{}, err
	}
	var after time.Duration
	if !value(cronJob.Spec.Suspend, false) {
		last, coming := dueTimes(cronJob, schedule, time.Now().In(zone))
		if !last.IsZero() {
			if err := w.startJob(ctx, next, running, last); err != nil {
				return tarn.Result{}, err
			}
		}
		if !coming.IsZero() {
			after = max(time.Until(coming), time.Millisecond)
		}
	}
	return tarn.Result{RequeueAfter: after}, w.cronJobs.setStatus(ctx, cronJob, next)
}

// dueTimes returns the last scheduled time for which no Job was started, or zero, and the first
// one after now.
func dueTimes(cronJob *batchv1.CronJob, schedule cron.Schedule, now time.Time) (last, coming time.Time) {
	since := value(cronJob.Status.LastScheduleTime, cronJob.CreationTimestamp).Time
	if limit := cronJob.Spec.StartingDeadlineSeconds; limit != nil {
		if earliest := now.Add(-time.Duration(*limit) * time.Second); earliest.After(since) {
			since = earliest
		}
	}
	since = since.In(now.Location())
	if last = schedule.Last(since, now); !last.IsZero() {
		since = last
	}
	return last, schedule.Next(since)
}

// history sets the active Jobs of the status and deletes finished ones beyond the limits. It
// returns the Jobs that run.
func (w *Workloads) history(ctx context.Context, cronJob *batchv1.CronJob) (running []*batchv1.Job, err error) {
	var complete, failed []*batchv1.Job
	cronJob.Status.Active = nil
	for _, job := range w.jobs.of(cronJob) {
		switch done, _ := jobFinished(job); {
		case !done:
			running = append(running, job)
			cronJob.Status.Active = append(cronJob.Status.Active, jobReference(job))
		case jobCondition(job, batchv1.JobFailed) == corev1.ConditionTrue:
			failed = append(failed, job)
		default:
			complete = append(complete, job)
			if at := job.Status.CompletionTime; at != nil && (cronJob.Status.LastSuccessfulTime == nil || cronJob.Status.LastSuccessfulTime.Before(at)) {
				cronJob.Status.LastSuccessfulTime = at.DeepCopy()
			}
		}
	}
	for _, list := range []struct {
		jobs []*batchv1.Job
		keep int32
	}{{complete, natural(cronJob.Spec.SuccessfulJobsHistoryLimit, 3)}, {failed, natural(cronJob.Spec.FailedJobsHistoryLimit, 1)}} {
		for i := range len(list.jobs) - int(list.keep) {
			if err := w.jobs.remove(ctx, list.jobs[i], tarn.Propagate(wire.Background)); err != nil {
				return nil, err
			}
		}
	}
	return running, nil
}

// startJob starts the Job of a scheduled time, unless the concurrency policy prevents it.
func (w *Workloads) startJob(ctx context.Context, cronJob *batchv1.CronJob, running []*batchv1.Job, due time.Time) error {
	switch cronJob.Spec.ConcurrencyPolicy {
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
		cronJob.Status.Active = nil
	}
	template := cronJob.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cronJob.Namespace, Name: fmt.Sprintf("%s-%d", cronJob.Name, due.Unix()/60), Labels: template.Labels,
			Annotations: with(template.Annotations, batchv1.CronJobScheduledTimestampAnnotation, due.Format(time.RFC3339)),
		},
		Spec: template.Spec,
	}
	if err := w.cronJobs.client.SetOwner(job, cronJob); err != nil {
		return err
	}
	created, err := w.jobs.client.Create(ctx, job)
	if err == nil {
		cronJob.Status.Active = append(cronJob.Status.Active, jobReference(created))
	} else if !apierrors.IsAlreadyExists(err) { // created before a restart
		return err
	}
	cronJob.Status.LastScheduleTime = &metav1.Time{Time: due}
	return nil
}

func jobReference(job *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID}
}
