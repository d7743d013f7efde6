package workloads_test

import (
	"context"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver/workloads"
)

func newJob(name string, completions, parallelism int32) *batchv1.Job {
	t := template(name, "v1")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &parallelism, Template: t,
	}}
}

// outcome returns the reason of a Job's condition Complete or Failed, or "".
func outcome(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return string(c.Type) + " " + c.Reason
		}
	}
	return ""
}

func (w *world) editJob(name string, change func(job *batchv1.Job)) {
	w.Helper()
	job := w.job(name)
	change(job)
	must(w.BatchV1().Jobs("default").Update(context.Background(), job, metav1.UpdateOptions{}))(w)
}

func TestAJobCompletes(t *testing.T) {
	inWorld(t, workloads.Options{RunTime: 10 * time.Second}, func(w *world) {
		job := newJob("sum", 5, 2)
		ttl := int32(60)
		job.Spec.TTLSecondsAfterFinished = &ttl
		w.create(job)
		w.wait(5 * time.Second)
		if s := w.job("sum").Status; s.Active != 2 || *s.Ready != 2 || s.Succeeded != 0 || s.StartTime == nil {
			w.Errorf("status %+v", s)
		}
		w.wait(8 * time.Second)
		if s := w.job("sum").Status; s.Active != 2 || s.Succeeded != 2 {
			w.Errorf("status %+v", s)
		}
		w.wait(25 * time.Second)
		if s := w.job("sum"); s.Status.Active != 0 || s.Status.Succeeded != 5 || outcome(s) != "Complete CompletionsReached" || s.Status.CompletionTime == nil {
			w.Errorf("status %+v", s.Status)
		}
		if n := len(w.podsOf("job-name=sum")); n != 5 {
			w.Errorf("%d pods", n)
		}
		w.wait(time.Minute)
		_, err := w.BatchV1().Jobs("default").Get(context.Background(), "sum", metav1.GetOptions{})
		if n := len(w.podsOf("")); !apierrors.IsNotFound(err) || n != 0 {
			w.Errorf("%v, %d pods after the time to live", err, n)
		}
	})
}

// The server accepts negative numbers without Options.Strict.
func TestNegativeNumbersOfJobsCountAsZero(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newJob("none", -1, 1), newJob("paused", 1, -1))
		cron := newCronJob("* * * * *")
		limit := int32(-1)
		cron.Spec.SuccessfulJobsHistoryLimit, cron.Spec.FailedJobsHistoryLimit = &limit, &limit
		w.create(cron)
		w.wait(5 * time.Minute)
		if got := outcome(w.job("none")); got != "Complete CompletionsReached" {
			w.Errorf("no completions: %s", got)
		}
		if s := w.job("paused").Status; s.Active != 0 || len(s.Conditions) != 0 {
			w.Errorf("no parallelism: %+v", s)
		}
		jobs, now := w.cronJobs()
		if len(jobs) > 3 || now.Status.LastSuccessfulTime == nil {
			w.Errorf("%d jobs, status %+v", len(jobs), now.Status)
		}
	})
}

// A pod without a completion index, or with one that is too large, counts for no index.
func TestAnIndexedJobIgnoresPodsWithoutItsIndexes(t *testing.T) {
	inWorld(t, workloads.Options{RunTime: 10 * time.Second}, func(w *world) {
		job := newJob("sum", 2, 2)
		mode := batchv1.IndexedCompletion
		job.Spec.CompletionMode = &mode
		w.create(job)
		w.wait(5 * time.Second)
		owner := *metav1.NewControllerRef(w.job("sum"), batchv1.SchemeGroupVersion.WithKind("Job"))
		for name, annotations := range map[string]map[string]string{"without": nil, "large": {batchv1.JobCompletionIndexAnnotation: "2"}} {
			w.create(newPod(name, func(pod *corev1.Pod) {
				pod.OwnerReferences, pod.Annotations = []metav1.OwnerReference{owner}, annotations
				pod.Status.Phase = corev1.PodSucceeded
			}))
		}
		w.wait(time.Second)
		if s := w.job("sum").Status; s.Active != 2 || s.Succeeded != 0 || s.CompletedIndexes != "" {
			w.Errorf("status %+v", s)
		}
		w.wait(10 * time.Second)
		if job := w.job("sum"); outcome(job) != "Complete CompletionsReached" || job.Status.CompletedIndexes != "0,1" {
			w.Errorf("status %+v", job.Status)
		}
	})
}

func TestAJobFailsAfterItsBackoffLimit(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		remove := w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "app=sum"})
		job := newJob("sum", 1, 1)
		limit := int32(2)
		job.Spec.BackoffLimit = &limit
		w.create(job)
		w.wait(5 * time.Second)
		if s := w.job("sum").Status; s.Failed != 1 || s.Active != 0 {
			w.Errorf("status %+v", s)
		}
		w.wait(10 * time.Second)
		if s := w.job("sum").Status; s.Failed != 2 || s.Active != 0 {
			w.Errorf("status %+v", s)
		}
		w.wait(20 * time.Second)
		if s := w.job("sum"); s.Status.Failed != 3 || outcome(s) != "Failed BackoffLimitExceeded" {
			w.Errorf("status %+v", s.Status)
		}
		remove()
		w.create(newJob("other", 1, 1))
		w.wait(5 * time.Second)
		if got := outcome(w.job("other")); got != "Complete CompletionsReached" {
			w.Error(got)
		}
	})
}

func TestAJobThatRestartsContainersFailsAfterItsBackoffLimit(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "app=sum"})
		job := newJob("sum", 1, 1)
		limit := int32(2)
		job.Spec.BackoffLimit, job.Spec.Template.Spec.RestartPolicy = &limit, corev1.RestartPolicyOnFailure
		w.create(job)
		w.wait(25 * time.Second)
		if got := outcome(w.job("sum")); got != "" {
			w.Error(got)
		}
		w.wait(15 * time.Second)
		if got := outcome(w.job("sum")); got != "Failed BackoffLimitExceeded" {
			w.Error(got)
		}
	})
}

func TestAnIndexedJobRunsEachIndex(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		job := newJob("sum", 6, 3)
		mode := batchv1.IndexedCompletion
		job.Spec.CompletionMode = &mode
		w.inject(workloads.Failure{Kind: workloads.Crash, Selector: batchv1.JobCompletionIndexAnnotation + "=1"})
		w.create(job)
		w.wait(50 * time.Second) // new pods wait for the back-off
		if s := w.job("sum").Status; s.CompletedIndexes != "0,2-5" || s.Succeeded != 5 {
			w.Errorf("status %+v", s)
		}
		var indexes []string
		for _, pod := range w.podsOf("job-name=sum") {
			if pod.Status.Phase == corev1.PodSucceeded {
				indexes = append(indexes, pod.Spec.Containers[0].Env[0].Value)
			}
		}
		slices.Sort(indexes)
		if !slices.Equal(indexes, []string{"0", "2", "3", "4", "5"}) {
			w.Errorf("indexes %v", indexes)
		}
	})
}

func TestASuspendedJobHasNoPods(t *testing.T) {
	inWorld(t, workloads.Options{RunTime: time.Minute}, func(w *world) {
		w.create(newJob("sum", 2, 2))
		w.wait(5 * time.Second)
		suspend := true
		w.editJob("sum", func(job *batchv1.Job) { job.Spec.Suspend = &suspend })
		w.wait(5 * time.Second)
		if s := w.job("sum").Status; s.Active != 0 || s.StartTime != nil || len(w.podsOf("job-name=sum")) != 0 {
			w.Errorf("status %+v", s)
		}
		suspend = false
		w.editJob("sum", func(job *batchv1.Job) { job.Spec.Suspend = &suspend })
		w.wait(65 * time.Second)
		if got := outcome(w.job("sum")); got != "Complete CompletionsReached" {
			w.Error(got)
		}
	})
}

func TestAJobEndsAtItsDeadline(t *testing.T) {
	inWorld(t, workloads.Options{RunTime: time.Hour}, func(w *world) {
		job := newJob("sum", 2, 2)
		deadline := int64(30)
		job.Spec.ActiveDeadlineSeconds = &deadline
		w.create(job)
		w.wait(28 * time.Second)
		if got := outcome(w.job("sum")); got != "" {
			w.Error(got)
		}
		w.wait(5 * time.Second)
		if job := w.job("sum"); outcome(job) != "Failed DeadlineExceeded" || len(w.podsOf("job-name=sum")) != 0 {
			w.Errorf("status %+v", job.Status)
		}
	})
}

func newCronJob(schedule string) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "report"}, Spec: batchv1.CronJobSpec{
		Schedule: schedule, JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("report", 1, 1).Spec},
	}}
}

func (w *world) cronJobs() (jobs []batchv1.Job, cron *batchv1.CronJob) {
	w.Helper()
	jobs = must(w.BatchV1().Jobs("default").List(context.Background(), metav1.ListOptions{}))(w).Items
	return jobs, must(w.BatchV1().CronJobs("default").Get(context.Background(), "report", metav1.GetOptions{}))(w)
}

func TestACronJobRunsOnScheduleAndKeepsItsHistoryShort(t *testing.T) {
	for _, schedule := range []string{"*/10 * * * *", "@every 10m"} {
		t.Run(schedule, func(t *testing.T) {
			inWorld(t, workloads.Options{}, func(w *world) {
				w.create(newCronJob(schedule))
				w.wait(9 * time.Minute)
				if jobs, _ := w.cronJobs(); len(jobs) != 0 {
					w.Errorf("%d jobs", len(jobs))
				}
				w.wait(time.Minute)
				if jobs, cron := w.cronJobs(); len(jobs) != 1 || len(cron.Status.Active) != 1 {
					w.Errorf("%d jobs, status %+v", len(jobs), cron.Status)
				}
				w.wait(2 * time.Hour)
				jobs, cron := w.cronJobs()
				if len(jobs) > 4 || len(jobs) < 3 || cron.Status.LastSuccessfulTime == nil || time.Since(cron.Status.LastScheduleTime.Time) > 10*time.Minute {
					w.Errorf("%d jobs, status %+v", len(jobs), cron.Status)
				}
				suspend := true
				cron.Spec.Suspend = &suspend
				must(w.BatchV1().CronJobs("default").Update(context.Background(), cron, metav1.UpdateOptions{}))(w)
				w.wait(time.Hour)
				if _, cron := w.cronJobs(); time.Since(cron.Status.LastScheduleTime.Time) < time.Hour {
					w.Errorf("status %+v", cron.Status)
				}
			})
		})
	}
}

// The stand-in finds the last of millions of missed times without visiting all of them.
func TestACronJobStartsTheLastMissedTimeOnly(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		cron := newCronJob("* * * * *")
		cron.Status.LastScheduleTime = &metav1.Time{Time: time.Now().AddDate(-90, 0, 0)}
		now := time.Now()
		w.create(cron)
		w.wait(time.Second)
		if jobs, cron := w.cronJobs(); len(jobs) != 1 || !cron.Status.LastScheduleTime.Equal(&metav1.Time{Time: now.Truncate(time.Minute)}) {
			w.Errorf("%d jobs, status %+v", len(jobs), cron.Status)
		}
	})
}

func TestConcurrencyPoliciesOfCronJobs(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]int{batchv1.AllowConcurrent: 3, batchv1.ForbidConcurrent: 1, batchv1.ReplaceConcurrent: 1} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, workloads.Options{RunTime: 24 * time.Hour}, func(w *world) {
				cron := newCronJob("0 * * * *")
				cron.Spec.ConcurrencyPolicy = policy
				w.create(cron)
				w.wait(time.Hour + time.Minute)
				first, _ := w.cronJobs()
				w.wait(2 * time.Hour)
				jobs, now := w.cronJobs()
				if len(jobs) != want || len(now.Status.Active) != want || len(first) != 1 {
					w.Errorf("%d jobs, status %+v", len(jobs), now.Status)
				}
				if replaced := jobs[0].Name != first[0].Name; replaced != (policy == batchv1.ReplaceConcurrent) {
					w.Errorf("job %s; was %s", jobs[0].Name, first[0].Name)
				}
			})
		})
	}
}
