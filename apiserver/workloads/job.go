package workloads

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

func (w *Workloads) addJobs() error {
	return w.add("jobs", w.reconcileJob, tarn.For(w.jobs.Mirror), tarn.Owns(w.pods.Mirror))
}

// execution is one reconcile of a Job.
type execution struct {
	*Workloads
	*batchv1.Job
	next   *batchv1.Job
	active []*corev1.Pod
	ending int // pods that are being deleted and still run
	failed []*corev1.Pod
	// succeeded has the completion indexes of succeeded pods, or without indexes their numbers.
	succeeded map[int]bool
	restarts  int32
}

func (w *Workloads) reconcileJob(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	job, ok := w.jobs.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	if done, at := jobFinished(job); done {
		return w.expire(ctx, job, at)
	}
	e := &execution{Workloads: w, Job: job, next: job.DeepCopy(), succeeded: map[int]bool{}}
	e.count(w.pods.of(job))
	after, err := e.advance(ctx)
	if err != nil {
		return tarn.Result{}, err
	}
	return tarn.Result{RequeueAfter: after}, w.jobs.setStatus(ctx, job, e.next)
}

// jobFinished reports whether a Job is Complete or Failed, and since when.
func jobFinished(job *batchv1.Job) (done bool, at time.Time) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true, c.LastTransitionTime.Time
		}
	}
	return false, at
}

// expire deletes a finished Job when its time to live is over.
func (w *Workloads) expire(ctx context.Context, job *batchv1.Job, finished time.Time) (tarn.Result, error) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return tarn.Result{}, nil
	}
	if left := time.Until(finished.Add(time.Duration(*ttl) * time.Second)); left > 0 {
		return tarn.Result{RequeueAfter: left}, nil
	}
	return tarn.Result{}, w.jobs.remove(ctx, job, tarn.Propagate(wire.Background))
}

func (e *execution) indexed() bool {
	return value(e.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// completions returns the number of completions, or 0 if any number is enough.
func (e *execution) completions() int { return int(natural(e.Spec.Completions, 0)) }

func (e *execution) count(pods []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			index := len(e.succeeded)
			if e.indexed() {
				if index = indexOf(pod); index < 0 || e.Spec.Completions != nil && index >= e.completions() {
					continue
				}
			}
			e.succeeded[index] = true
		case pod.Status.Phase == corev1.PodFailed:
			e.failed = append(e.failed, pod)
		case pod.DeletionTimestamp != nil:
			e.ending++
		default:
			e.active = append(e.active, pod)
			e.restarts += restarts(pod)
		}
	}
}

// advance decides what to do, and sets the status of next.
func (e *execution) advance(ctx context.Context) (after time.Duration, err error) {
	status := &e.next.Status
	if value(e.Spec.Suspend, false) {
		err = e.stop(ctx)
		if e.set(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			status.StartTime = nil
		}
		e.setCounts()
		return 0, err
	}
	if jobCondition(e.Job, batchv1.JobSuspended) == corev1.ConditionTrue {
		e.set(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
	}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
	reason, message := e.failure()
	switch {
	case reason != "":
		err = e.end(ctx, batchv1.JobFailureTarget, batchv1.JobFailed, reason, message)
	case e.done():
		err = e.end(ctx, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods")
	default:
		after, err = e.start(ctx)
		if limit := e.Spec.ActiveDeadlineSeconds; limit != nil {
			after = sooner(after, time.Until(status.StartTime.Add(time.Duration(*limit)*time.Second)))
		}
	}
	e.setCounts()
	return after, err
}

// failure returns why the Job has failed, or "".
func (e *execution) failure() (reason, message string) {
	limit := value(e.Spec.BackoffLimit, 6)
	deadline := e.Spec.ActiveDeadlineSeconds
	switch {
	case jobCondition(e.Job, batchv1.JobFailureTarget) == corev1.ConditionTrue:
		i := slices.IndexFunc(e.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailureTarget })
		return e.Status.Conditions[i].Reason, e.Status.Conditions[i].Message
	case int32(len(e.failed)) > limit || e.restarts > 0 && e.restarts >= limit && e.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		return batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	case deadline != nil && time.Since(e.next.Status.StartTime.Time) >= time.Duration(*deadline)*time.Second:
		return batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
	}
	return "", ""
}

// done reports whether the Job has succeeded.
func (e *execution) done() bool {
	if e.Spec.Completions == nil {
		if e.Spec.Parallelism != nil {
			return len(e.succeeded) > 0 && len(e.active) == 0
		}
		return len(e.succeeded) > 0
	}
	return len(e.succeeded) >= e.completions()
}

// end stops the remaining pods, and finishes the Job when they have ended.
func (e *execution) end(ctx context.Context, criterion, outcome batchv1.JobConditionType, reason, message string) error {
	e.set(criterion, corev1.ConditionTrue, reason, message)
	if len(e.active)+e.ending > 0 {
		return e.stop(ctx)
	}
	e.set(outcome, corev1.ConditionTrue, reason, message)
	if outcome == batchv1.JobComplete {
		e.next.Status.CompletionTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
	return nil
}

// stop deletes the active pods.
func (e *execution) stop(ctx context.Context) error {
	for _, pod := range e.active {
		if err := e.pods.remove(ctx, pod); err != nil {
			return err
		}
	}
	e.ending += len(e.active)
	e.active = nil
	return nil
}

// start creates the missing pods and deletes surplus ones. After a failure it waits, and
// returns for how long.
func (e *execution) start(ctx context.Context) (after time.Duration, err error) {
	want := int(natural(e.Spec.Parallelism, 1))
	switch {
	case e.Spec.Completions != nil:
		want = min(want, e.completions()-len(e.succeeded))
	case len(e.succeeded) > 0:
		want = min(want, len(e.active))
	}
	slices.SortStableFunc(e.active, firstToDelete)
	for len(e.active) > want {
		if err := e.pods.remove(ctx, e.active[0]); err != nil {
			return 0, err
		}
		e.active, e.ending = e.active[1:], e.ending+1
	}
	if left := e.backoff(); left > 0 && len(e.active) < want {
		return left, nil
	}
	taken := map[int]bool{}
	for _, pod := range e.active {
		taken[indexOf(pod)] = true
	}
	for index := 0; len(e.active) < want; index++ {
		if e.indexed() && (taken[index] || e.succeeded[index]) {
			continue
		}
		pod, err := e.pods.client.Create(ctx, e.pod(index))
		if err != nil {
			return 0, err
		}
		e.active = append(e.active, pod)
	}
	return 0, nil
}

// backoff returns for how long no pods are created after a failure: ten seconds, twice as long
// after each further one, six minutes at most.
func (e *execution) backoff() time.Duration {
	if len(e.failed) == 0 {
		return 0
	}
	var last time.Time
	for _, pod := range e.failed {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Terminated != nil && c.State.Terminated.FinishedAt.After(last) {
				last = c.State.Terminated.FinishedAt.Time
			}
		}
	}
	return time.Until(last.Add(min(10*time.Second<<min(len(e.failed)-1, 6), 6*time.Minute)))
}

const indexAnnotation = batchv1.JobCompletionIndexAnnotation

// indexOf returns the completion index of a pod.
func indexOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[indexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// pod returns a new pod of the Job.
func (e *execution) pod(index int) *corev1.Pod {
	pod := podOf(&e.Spec.Template, e.Namespace, batchv1.ControllerUidLabel, string(e.UID), batchv1.JobNameLabel, e.Name, "controller-uid", string(e.UID), "job-name", e.Name)
	pod.GenerateName = e.Name + "-"
	if e.indexed() {
		n := strconv.Itoa(index)
		pod.GenerateName = e.Name + "-" + n + "-"
		pod.Annotations = with(pod.Annotations, indexAnnotation, n)
		pod.Labels[indexAnnotation] = n
		pod.Spec.Hostname = e.Name + "-" + n
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			c.Env = append(c.Env, corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", Value: n})
		}
	}
	_ = e.jobs.client.SetOwner(pod, e.Job) // fails only for a pod with another owner
	return pod
}

func (e *execution) setCounts() {
	status := &e.next.Status
	running, terminating := int32(0), int32(e.ending)
	for _, pod := range e.active {
		if ready(pod) {
			running++
		}
	}
	status.Active, status.Succeeded, status.Failed = int32(len(e.active)), int32(len(e.succeeded)), int32(len(e.failed))
	status.Ready, status.Terminating = &running, &terminating
	if e.indexed() {
		status.CompletedIndexes = ranges(e.succeeded)
	}
}

// ranges formats a set of natural numbers, as in "1,3-5".
func ranges(set map[int]bool) string {
	var parts []string
	for n, found := 0, 0; found < len(set); n++ {
		first := n
		for ; set[n]; n++ {
			found++
		}
		switch {
		case n == first+1:
			parts = append(parts, strconv.Itoa(first))
		case n == first+2:
			parts = append(parts, strconv.Itoa(first), strconv.Itoa(first+1))
		case n > first:
			parts = append(parts, fmt.Sprintf("%d-%d", first, n-1))
		}
	}
	return strings.Join(parts, ",")
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) corev1.ConditionStatus {
	for _, c := range job.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// set sets a condition, and reports whether its status changed.
func (e *execution) set(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) bool {
	if jobCondition(e.next, kind) == status {
		return false
	}
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	conditions := slices.DeleteFunc(e.next.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	e.next.Status.Conditions = append(conditions, batchv1.JobCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now,
	})
	return true
}
