package builtin

import (
	"maps"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/tarnproject/tarn/internal/cron"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func defaultJob(job *batchv1.Job) {
	s := &job.Spec
	defaultPodSpec(&s.Template.Spec)
	if s.Completions == nil && s.Parallelism == nil {
		setDefault(&s.Completions, 1)
	}
	setDefault(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		setDefault(&s.BackoffLimit, math.MaxInt32)
	}
	setDefault(&s.BackoffLimit, 6)
	if len(job.Labels) == 0 {
		job.Labels = s.Template.Labels // shared until prepareJob, which adds to both
	}
	setDefault(&s.CompletionMode, batchv1.NonIndexedCompletion)
	setDefault(&s.Suspend, false)
	setDefault(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		setDefault(&s.PodReplacementPolicy, batchv1.Failed)
		for _, rule := range s.PodFailurePolicy.Rules {
			for i := range rule.OnPodConditions {
				setText(&rule.OnPodConditions[i].Status, corev1.ConditionTrue)
			}
		}
	}
	setDefault(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

func defaultCronJob(s *batchv1.CronJobSpec) {
	defaultPodSpec(&s.JobTemplate.Spec.Template.Spec)
	setText(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	setDefault(&s.Suspend, false)
	setDefault(&s.SuccessfulJobsHistoryLimit, 3)
	setDefault(&s.FailedJobsHistoryLimit, 1)
}

const (
	legacyJobName = "job-name"
	legacyJobUID  = "controller-uid"
)

// prepareJob generates the selector of a new job.
func prepareJob(job *batchv1.Job) {
	if valueOf(job.Spec.ManualSelector) {
		return
	}
	t := &job.Spec.Template
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for name, value := range map[string]string{
		legacyJobName: job.Name, batchv1.JobNameLabel: job.Name, legacyJobUID: string(job.UID), batchv1.ControllerUidLabel: string(job.UID),
	} {
		if _, set := t.Labels[name]; !set {
			t.Labels[name] = value
		}
	}
	job.Labels = maps.Clone(job.Labels)
	setDefault(&job.Spec.Selector, metav1.LabelSelector{})
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, set := job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
		job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
	}
}

func (p *problems) job(job, old *batchv1.Job) {
	if !valueOf(job.Spec.ManualSelector) {
		p.generatedSelector(job)
	}
	p.selectedJob(&job.Spec)
	if old != nil {
		p.selectedJob(&job.Spec) // kube-apiserver reports these twice
		p.jobUpdate(&job.Spec, &old.Spec)
	}
}

// selectedJob validates the spec of a job with its selector.
func (p *problems) selectedJob(s *batchv1.JobSpec) {
	p.jobSpec(s, spec)
	if s.Selector == nil {
		p.required(spec.Child("selector"), "")
	}
	p.labelSelector(spec.Child("selector"), s.Selector)
	if parsed, ok := parsed(s.Selector); ok && !parsed.Matches(labels.Set(s.Template.Labels)) {
		p.invalid(spec.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`")
	}
}

// generatedSelector checks that the labels of a new job's template and its selector are those
// that the server generates.
func (p *problems) generatedSelector(job *batchv1.Job) {
	want := map[string]string{}
	for _, l := range []struct{ name, value string }{
		{legacyJobUID, string(job.UID)}, {legacyJobName, job.Name}, {batchv1.ControllerUidLabel, string(job.UID)}, {batchv1.JobNameLabel, job.Name},
	} {
		want[l.name] = l.value
		if job.Spec.Template.Labels[l.name] != l.value {
			p.invalid(spec.Child("template", "metadata", "labels").Key(l.name), job.Spec.Template.Labels, "must be '"+l.value+"'")
		}
	}
	if parsed, ok := parsed(job.Spec.Selector); ok && !parsed.Matches(labels.Set(want)) {
		p.invalid(spec.Child("selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

func (p *problems) jobUpdate(s, old *batchv1.JobSpec) {
	indexed := valueOf(s.CompletionMode) == batchv1.IndexedCompletion
	switch {
	case !indexed:
		p.immutable(spec.Child("completions"), s.Completions, old.Completions)
	case s.Completions != nil && !equality.Semantic.DeepEqual(s.Completions, old.Completions) && *s.Completions != valueOf(s.Parallelism):
		p.invalid(spec.Child("completions"), s.Completions, "can only be modified in tandem with spec.parallelism")
	}
	p.immutable(spec.Child("selector"), s.Selector, old.Selector)
	was := old.Template.DeepCopy()
	if valueOf(old.Suspend) {
		// A suspended job may be scheduled and sized differently when it starts.
		now := &s.Template
		was.Labels, was.Annotations = now.Labels, now.Annotations
		was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates, was.Spec.Affinity = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates, now.Spec.Affinity
		for i := range min(len(was.Spec.Containers), len(now.Spec.Containers)) {
			was.Spec.Containers[i].Resources = now.Spec.Containers[i].Resources
		}
	}
	p.immutable(spec.Child("template"), &s.Template, was)
	p.immutable(spec.Child("completionMode"), s.CompletionMode, old.CompletionMode)
	p.immutable(spec.Child("podFailurePolicy"), s.PodFailurePolicy, old.PodFailurePolicy)
	p.immutable(spec.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex, old.BackoffLimitPerIndex)
	p.immutable(spec.Child("managedBy"), s.ManagedBy, old.ManagedBy)
	p.immutable(spec.Child("successPolicy"), s.SuccessPolicy, old.SuccessPolicy)
}

// jobSpec validates a job or the template of a cron job, except for the selector.
func (p *problems) jobSpec(s *batchv1.JobSpec, at *field.Path) {
	notNegative(p, at.Child("parallelism"), s.Parallelism)
	notNegative(p, at.Child("completions"), s.Completions)
	notNegative(p, at.Child("activeDeadlineSeconds"), s.ActiveDeadlineSeconds)
	notNegative(p, at.Child("backoffLimit"), s.BackoffLimit)
	notNegative(p, at.Child("ttlSecondsAfterFinished"), s.TTLSecondsAfterFinished)
	notNegative(p, at.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex)
	notNegative(p, at.Child("maxFailedIndexes"), s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		p.required(at.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	}
	if s.ManagedBy != nil {
		p.add(utilvalidation.IsDomainPrefixedPath(at.Child("managedBy"), *s.ManagedBy)...)
	}
	mode := valueOf(s.CompletionMode)
	emptyOr(p, at.Child("completionMode"), mode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	switch mode {
	case batchv1.IndexedCompletion:
		if s.Completions == nil {
			p.required(at.Child("completions"), "when completion mode is Indexed")
		}
		if n := valueOf(s.Parallelism); n > 100_000 {
			p.invalid(at.Child("parallelism"), n, "must be less than or equal to 100000 when completion mode is Indexed")
		}
		if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
			p.invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions")
		}
	case batchv1.NonIndexedCompletion, "":
		if s.BackoffLimitPerIndex != nil {
			p.invalid(at.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode")
		}
		if s.MaxFailedIndexes != nil {
			p.invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "requires indexed completion mode")
		}
		if s.SuccessPolicy != nil {
			p.invalid(at.Child("successPolicy"), *s.SuccessPolicy, "requires indexed completion mode")
		}
	}
	if policy := s.PodReplacementPolicy; policy != nil {
		if s.PodFailurePolicy != nil {
			emptyOr(p, at.Child("podReplacementPolicy"), *policy, batchv1.Failed)
		} else {
			emptyOr(p, at.Child("podReplacementPolicy"), *policy, batchv1.Failed, batchv1.TerminatingOrFailed)
		}
	}
	p.template(&s.Template, at.Child("template"))
	restarts := at.Child("template", "spec", "restartPolicy")
	switch policy := s.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways || policy == "":
		p.required(restarts, `valid values: "OnFailure", "Never"`)
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		emptyOr(p, restarts, policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case s.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		p.invalid(restarts, policy, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

func (p *problems) cronJob(job, old *batchv1.CronJob) {
	s := &job.Spec
	if s.Schedule == "" {
		p.required(spec.Child("schedule"), "")
	} else {
		p.schedule(s, old != nil && strings.Contains(old.Spec.Schedule, "TZ"))
	}
	notNegative(p, spec.Child("startingDeadlineSeconds"), s.StartingDeadlineSeconds)
	if s.TimeZone != nil && (old == nil || valueOf(old.Spec.TimeZone) != *s.TimeZone) {
		p.timeZone(*s.TimeZone, spec.Child("timeZone"))
	}
	oneOf(p, spec.Child("concurrencyPolicy"), s.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	at := spec.Child("jobTemplate", "spec")
	p.jobSpec(&s.JobTemplate.Spec, at)
	if s.JobTemplate.Spec.Selector != nil {
		p.invalid(at.Child("selector"), s.JobTemplate.Spec.Selector, "`selector` will be auto-generated")
	}
	if valueOf(s.JobTemplate.Spec.ManualSelector) {
		p.add(field.NotSupported(at.Child("manualSelector"), true, []string{"nil", "false"}))
	}
	notNegative(p, spec.Child("successfulJobsHistoryLimit"), s.SuccessfulJobsHistoryLimit)
	notNegative(p, spec.Child("failedJobsHistoryLimit"), s.FailedJobsHistoryLimit)
	if old == nil && len(job.Name) > 52 {
		p.invalid(field.NewPath("metadata", "name"), job.Name, "must be no more than 52 characters")
	}
}

// schedule validates a schedule. Only one that had a time zone before may have one.
func (p *problems) schedule(s *batchv1.CronJobSpec, zoned bool) {
	at := spec.Child("schedule")
	if _, err := cron.Parse(s.Schedule); err != nil {
		p.invalid(at, s.Schedule, err.Error())
	}
	switch hasZone := strings.Contains(s.Schedule, "TZ"); {
	case hasZone && !zoned:
		p.invalid(at, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	case hasZone && s.TimeZone != nil:
		p.invalid(at, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
}

var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}$`)

func (p *problems) timeZone(zone string, at *field.Path) {
	if zone == "" {
		p.invalid(at, zone, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			p.invalid(at, zone, "unknown time zone "+zone)
			return
		}
	}
	if strings.EqualFold(zone, "Local") {
		p.invalid(at, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(zone); err != nil {
		p.invalid(at, zone, err.Error())
	}
}
