package builtin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// jobIs reports whether a condition of a job has this status.
func jobIs(job *batchv1.Job, condition batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == condition && c.Status == status })
}

// jobOutcome is what the conditions of a job say about its end.
type jobOutcome struct{ complete, failed, succeeds, fails bool }

func outcomeOf(job *batchv1.Job) jobOutcome {
	is := func(c batchv1.JobConditionType) bool { return jobIs(job, c, corev1.ConditionTrue) }
	return jobOutcome{is(batchv1.JobComplete), is(batchv1.JobFailed), is(batchv1.JobSuccessCriteriaMet), is(batchv1.JobFailureTarget)}
}

func (o jobOutcome) finished() bool { return o.complete || o.failed }

// jobStatus validates the status of a job and its change. Most rules apply only if a field that
// they name has changed, so that a status that was stored before does not prevent other changes.
func (p *problems) jobStatus(job, old *batchv1.Job) {
	s, was := &job.Status, &old.Status
	is, before := outcomeOf(job), outcomeOf(old)
	completes, finishes := is.complete != before.complete, is.finished() != before.finished()
	starts := !s.StartTime.Equal(was.StartTime)
	ends := !s.CompletionTime.Equal(was.CompletionTime)

	p.jobCounts(s)
	p.conditions((completes || is.failed != before.failed) && is.complete && is.failed, "cannot set Complete=True and Failed=true conditions")
	p.conditions((completes || is.fails != before.fails) && is.complete && is.fails, "cannot set Complete=True and FailureTarget=true conditions")
	ended := status.Child("completionTime")
	if completes || ends {
		switch {
		case s.CompletionTime != nil && !is.complete:
			p.invalid(ended, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		case s.CompletionTime == nil && is.complete:
			p.required(ended, "completionTime is required for Complete jobs")
		}
	}
	if (starts || ends) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		p.invalid(ended, s.CompletionTime, "must be equal to or after `startTime`")
	}
	indexesFailed := !equality.Semantic.DeepEqual(s.FailedIndexes, was.FailedIndexes)
	p.conditions((is.failed != before.failed || indexesFailed) && is.failed && !is.fails, "cannot set Failed=True condition without the FailureTarget=true condition")
	p.conditions((completes || is.succeeds != before.succeeds) && is.complete && !is.succeeds, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	if is.finished() {
		if (finishes || s.Active != was.Active) && s.Active > 0 {
			p.invalid(status.Child("active"), s.Active, "active>0 is invalid for finished job")
		}
		nothingToDo := valueOf(job.Spec.Suspend) && job.Spec.Completions != nil && *job.Spec.Completions == 0
		if (finishes || starts) && !nothingToDo && s.StartTime == nil {
			p.required(status.Child("startTime"), "startTime is required for finished job")
		}
		pods := s.UncountedTerminatedPods
		if (finishes || !equality.Semantic.DeepEqual(pods, was.UncountedTerminatedPods)) && pods != nil && len(pods.Failed)+len(pods.Succeeded) > 0 {
			p.invalid(status.Child("uncountedTerminatedPods"), pods, "must be empty for finished job")
		}
	}
	p.jobIndexes(job, s.CompletedIndexes != was.CompletedIndexes, indexesFailed)
	if n := valueOf(s.Terminating); is.finished() && n > 0 && (finishes || n != valueOf(was.Terminating) || was.Terminating == nil) {
		p.invalid(status.Child("terminating"), n, "terminating>0 is invalid for finished job")
	}
	if s.Ready != nil && *s.Ready > s.Active && (s.Active != was.Active || !equality.Semantic.DeepEqual(s.Ready, was.Ready)) {
		p.invalid(status.Child("ready"), *s.Ready, "cannot set more ready pods than active")
	}
	p.conditions(is.succeeds && is.failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	p.conditions(is.succeeds && is.fails, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	p.conditions(job.Spec.SuccessPolicy != nil && !is.succeeds && is.complete, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")

	p.conditions(before.failed && !is.failed, "cannot disable the terminal Failed=True condition")
	p.conditions(before.complete && !is.complete, "cannot disable the terminal Complete=True condition")
	p.conditions(before.fails && !is.fails, "cannot disable the terminal FailureTarget=True condition")
	if s.Failed < was.Failed {
		p.invalid(status.Child("failed"), s.Failed, "cannot decrease the failed counter")
	}
	// A job with as many completions as pods in parallel may be scaled down.
	scales := valueOf(job.Spec.CompletionMode) == batchv1.IndexedCompletion && equality.Semantic.DeepEqual(job.Spec.Completions, job.Spec.Parallelism)
	if s.Succeeded < was.Succeeded && !scales {
		p.invalid(status.Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter")
	}
	if s.CompletionTime != nil && was.CompletionTime != nil && ends {
		p.invalid(ended, s.CompletionTime, "field is immutable")
	}
	resumes := jobIs(old, batchv1.JobSuspended, corev1.ConditionTrue) && jobIs(job, batchv1.JobSuspended, corev1.ConditionFalse)
	if starts && !resumes && was.StartTime != nil && !valueOf(job.Spec.Suspend) {
		p.invalid(status.Child("startTime"), s.StartTime, "field is immutable for unsuspended job once set")
	}
	p.conditions(before.succeeds && !is.succeeds, "cannot disable the SuccessCriteriaMet=True condition")
	p.conditions(before.complete && !before.succeeds && is.succeeds, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
}

// conditions adds an error of the conditions if they are wrong.
func (p *problems) conditions(wrong bool, detail string) {
	if wrong {
		p.invalid(status.Child("conditions"), field.OmitValueType{}, detail)
	}
}

// jobCounts validates the numbers of a job's pods and the pods that are not counted yet.
func (p *problems) jobCounts(s *batchv1.JobStatus) {
	p.notNegative([]count{{"active", int64(s.Active)}, {"succeeded", int64(s.Succeeded)}, {"failed", int64(s.Failed)}})
	notNegative(p, status.Child("ready"), s.Ready)
	notNegative(p, status.Child("terminating"), s.Terminating)
	if s.UncountedTerminatedPods == nil {
		return
	}
	seen := map[types.UID]bool{}
	unique := func(at *field.Path, pods []types.UID) {
		for i, uid := range pods {
			switch {
			case uid == "":
				p.invalid(at.Index(i), uid, "must not be empty")
			case seen[uid]:
				p.duplicate(at.Index(i), uid)
			}
			seen[uid] = true
		}
	}
	uncounted := status.Child("uncountedTerminatedPods")
	unique(uncounted.Child("succeeded"), s.UncountedTerminatedPods.Succeeded)
	unique(uncounted.Child("failed"), s.UncountedTerminatedPods.Failed)
}

// jobIndexes validates the completed and failed indexes of a job, as far as they changed.
func (p *problems) jobIndexes(job *batchv1.Job, completed, failed bool) {
	s := &job.Status
	atCompleted, atFailed := status.Child("completedIndexes"), status.Child("failedIndexes")
	limit := job.Spec.Completions
	if completed && limit != nil {
		if err := checkIndexes(s.CompletedIndexes, *limit); err != nil {
			p.invalid(atCompleted, s.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
	}
	if failed && limit != nil && job.Spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
		if err := checkIndexes(*s.FailedIndexes, *limit); err != nil {
			p.invalid(atFailed, *s.FailedIndexes, "error parsing failedIndexes: "+err.Error())
		}
	}
	if completed && s.CompletedIndexes != "" && valueOf(job.Spec.CompletionMode) != batchv1.IndexedCompletion {
		p.invalid(atCompleted, s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failed && job.Spec.BackoffLimitPerIndex == nil && s.FailedIndexes != nil {
		p.invalid(atFailed, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (completed || failed) && limit != nil && s.FailedIndexes != nil {
		if index, both := overlap(intervals(s.CompletedIndexes, *limit), intervals(*s.FailedIndexes, *limit)); both {
			p.invalid(atFailed, *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index))
		}
	}
}

// interval is a range of indexes, both included.
type interval struct{ first, last int }

// checkIndexes returns an error if a text such as "1,3-5" has no increasing indexes below limit.
func checkIndexes(text string, limit int32) error {
	if text == "" {
		return nil
	}
	var before *interval
	for part := range strings.SplitSeq(text, ",") {
		now, err := parseInterval(part, limit)
		if err != nil {
			return err
		}
		if before != nil && before.last >= now.first {
			return fmt.Errorf("non-increasing order, previous: %d, current: %d", before.last, now.first)
		}
		before = &now
	}
	return nil
}

func parseInterval(text string, limit int32) (interval, error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var bounds []int
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", part)
		}
		if n >= int(limit) {
			return interval{}, fmt.Errorf("too large index: %q", part)
		}
		bounds = append(bounds, n)
	}
	found := interval{bounds[0], bounds[len(bounds)-1]}
	if len(bounds) == 2 && found.first >= found.last {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", found.first, found.last)
	}
	return found, nil
}

// intervals returns the valid intervals of a text.
func intervals(text string, limit int32) (all []interval) {
	for part := range strings.SplitSeq(text, ",") {
		if i, err := parseInterval(part, limit); err == nil {
			all = append(all, i)
		}
	}
	return all
}

// overlap returns the first index that is in an interval of both, which it sorts.
func overlap(a, b []interval) (index int, both bool) {
	byFirst := func(x, y interval) int { return cmp.Compare(x.first, y.first) }
	slices.SortFunc(a, byFirst)
	slices.SortFunc(b, byFirst)
	for len(a) > 0 && len(b) > 0 {
		if at := max(a[0].first, b[0].first); at <= min(a[0].last, b[0].last) {
			return at, true
		}
		// The one that ends first is before all others of the other list.
		if a[0].last < b[0].last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
