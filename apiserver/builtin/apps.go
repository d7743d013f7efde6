package builtin

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func defaultReplicationController(rc *corev1.ReplicationController) {
	setDefault(&rc.Spec.Replicas, 1)
	if rc.Spec.Template == nil {
		return
	}
	defaultPodSpec(&rc.Spec.Template.Spec)
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = rc.Spec.Template.Labels
	}
	if len(rc.Labels) == 0 {
		rc.Labels = rc.Spec.Template.Labels
	}
}

func defaultDeployment(s *appsv1.DeploymentSpec) {
	defaultPodSpec(&s.Template.Spec)
	setDefault(&s.Replicas, 1)
	setText(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setDefault(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setDefault(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setDefault(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	setDefault(&s.RevisionHistoryLimit, 10)
	setDefault(&s.ProgressDeadlineSeconds, 600)
}

func defaultStatefulSet(s *appsv1.StatefulSetSpec) {
	defaultPodSpec(&s.Template.Spec)
	setText(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		setDefault(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		setDefault(&r.Partition, 0)
		r.MaxUnavailable = nil // the feature gate MaxUnavailableStatefulSet is off by default
	}
	setDefault(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	setText(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setText(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setDefault(&s.Replicas, 1)
	setDefault(&s.RevisionHistoryLimit, 10)
	for i := range s.VolumeClaimTemplates {
		claim := &s.VolumeClaimTemplates[i]
		claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		defaultClaim(&claim.Spec)
		setText(&claim.Status.Phase, corev1.ClaimPending)
	}
}

func defaultDaemonSet(set *appsv1.DaemonSet) {
	s := &set.Spec
	if set.Annotations[appsv1.DeprecatedTemplateGeneration] == "" {
		setTemplateGeneration(set, 0)
	}
	defaultPodSpec(&s.Template.Spec)
	setText(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		setDefault(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		setDefault(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		setDefault(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	setDefault(&s.RevisionHistoryLimit, 10)
}

// setTemplateGeneration sets the annotation that has the generation of a DaemonSet's template.
func setTemplateGeneration(set *appsv1.DaemonSet, generation int64) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(generation, 10)
}

// prepareDaemonSet counts the changes of the template in an annotation.
func prepareDaemonSet(set, old *appsv1.DaemonSet) {
	generation := int64(1)
	if old != nil {
		// An annotation that is not a number counts from zero.
		generation, _ = strconv.ParseInt(old.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
		if !equality.Semantic.DeepEqual(set.Spec.Template, old.Spec.Template) {
			generation++
		}
	}
	setTemplateGeneration(set, generation)
}

func (p *problems) replicationController(s *corev1.ReplicationControllerSpec, at *field.Path) {
	notNegative(p, at.Child("minReadySeconds"), &s.MinReadySeconds)
	selector := labels.SelectorFromSet(s.Selector)
	if selector.Empty() {
		p.required(at.Child("selector"), "")
	}
	notNegative(p, at.Child("replicas"), s.Replicas)
	if s.Template == nil {
		p.required(at.Child("template"), "")
		return
	}
	p.selected(s.Template, selector, at.Child("template"))
	p.template(s.Template, at.Child("template"))
	p.runsForever(&s.Template.Spec, "ReplicationController", at.Child("template", "spec"))
}

// selector validates the selector of a workload, which must not be empty.
func (p *problems) selector(selector *metav1.LabelSelector, kind string) {
	at := spec.Child("selector")
	if selector == nil {
		p.required(at, "")
		return
	}
	p.labelSelector(at, selector)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		p.invalid(at, selector, "empty selector is invalid for "+kind)
	}
}

// replicated validates the selector and the template of a ReplicaSet or Deployment.
func (p *problems) replicated(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) {
	p.selector(selector, "deployment")
	parsed, ok := parsed(selector)
	if !ok {
		p.invalid(spec.Child("selector"), selector, "invalid label selector")
		return
	}
	at := spec.Child("template")
	p.selected(template, parsed, at)
	p.template(template, at)
	p.runsForever(&template.Spec, "ReplicaSet", at.Child("spec"))
}

func (p *problems) deployment(d, old *appsv1.Deployment) {
	s := &d.Spec
	notNegative(p, spec.Child("replicas"), s.Replicas)
	p.replicated(s.Selector, &s.Template)
	at := spec.Child("strategy")
	switch rolling := s.Strategy.RollingUpdate; s.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if rolling != nil {
			p.forbidden(at.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		at = at.Child("rollingUpdate")
		p.amount(at.Child("maxUnavailable"), rolling.MaxUnavailable)
		p.amount(at.Child("maxSurge"), rolling.MaxSurge)
		if isNone(rolling.MaxUnavailable) && isNone(rolling.MaxSurge) {
			p.invalid(at.Child("maxUnavailable"), rolling.MaxUnavailable, "may not be 0 when `maxSurge` is 0")
		}
		p.atMostAll(at.Child("maxUnavailable"), rolling.MaxUnavailable)
	default:
		value := struct{ Type, RollingUpdate any }{s.Strategy.Type, rolling}
		p.add(field.NotSupported(at, value, []string{"Recreate", "RollingUpdate"}))
	}
	notNegative(p, spec.Child("minReadySeconds"), &s.MinReadySeconds)
	notNegative(p, spec.Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	notNegative(p, spec.Child("progressDeadlineSeconds"), s.ProgressDeadlineSeconds)
	if deadline := valueOf(s.ProgressDeadlineSeconds); deadline <= s.MinReadySeconds {
		p.invalid(spec.Child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")
	}
	if old != nil {
		p.immutable(spec.Child("selector"), s.Selector, old.Spec.Selector)
	}
}

func (p *problems) replicaSet(r, old *appsv1.ReplicaSet) {
	notNegative(p, spec.Child("replicas"), r.Spec.Replicas)
	notNegative(p, spec.Child("minReadySeconds"), &r.Spec.MinReadySeconds)
	p.replicated(r.Spec.Selector, &r.Spec.Template)
	if old != nil {
		p.immutable(spec.Child("selector"), r.Spec.Selector, old.Spec.Selector)
	}
}

func (p *problems) statefulSet(set, old *appsv1.StatefulSet) {
	s := &set.Spec
	switch s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		p.invalid(spec.Child("podManagementPolicy"), s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
	}
	p.statefulSetStrategy(&s.UpdateStrategy, spec.Child("updateStrategy"))
	if policy := s.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := spec.Child("persistentVolumeClaimRetentionPolicy")
		retain, remove := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		emptyOr(p, at.Child("whenDeleted"), policy.WhenDeleted, retain, remove)
		emptyOr(p, at.Child("whenScaled"), policy.WhenScaled, retain, remove)
	}
	if old == nil {
		for i := range s.VolumeClaimTemplates {
			p.claimSpec(&s.VolumeClaimTemplates[i].Spec, spec.Child("volumeClaimTemplates").Index(i).Child("spec"))
		}
	}
	notNegative(p, spec.Child("replicas"), s.Replicas)
	notNegative(p, spec.Child("minReadySeconds"), &s.MinReadySeconds)
	if s.Ordinals != nil {
		notNegative(p, spec.Child("ordinals.start"), &s.Ordinals.Start)
	}
	if old == nil && s.ServiceName != "" {
		p.label(spec.Child("serviceName"), s.ServiceName)
	}
	p.selector(s.Selector, "statefulset")
	at := spec.Child("template")
	if parsed, ok := parsed(s.Selector); !ok {
		p.invalid(spec.Child("selector"), s.Selector, "")
	} else {
		p.selected(&s.Template, parsed, at)
		p.template(withClaims(s), at)
		// kube-apiserver checks these twice.
		p.add(metavalidation.ValidateLabels(s.Template.Labels, at.Child("labels"))...)
		p.add(validation.ValidateAnnotations(s.Template.Annotations, at.Child("annotations"))...)
	}
	p.runsForever(&s.Template.Spec, "StatefulSet", at.Child("spec"))
	if old == nil {
		return
	}
	rest, was := s.DeepCopy(), &old.Spec
	rest.Replicas, rest.Template, rest.UpdateStrategy, rest.MinReadySeconds = was.Replicas, was.Template, was.UpdateStrategy, was.MinReadySeconds
	rest.Ordinals, rest.RevisionHistoryLimit, rest.PersistentVolumeClaimRetentionPolicy = was.Ordinals, was.RevisionHistoryLimit, was.PersistentVolumeClaimRetentionPolicy
	if !equality.Semantic.DeepEqual(rest, was) {
		p.forbidden(spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	}
}

// withClaims returns the template of a StatefulSet with the volumes of its claims and without
// the fields that the controller overwrites.
func withClaims(s *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := s.Template.DeepCopy()
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	var volumes []corev1.Volume
	claims := map[string]bool{}
	for _, claim := range s.VolumeClaimTemplates {
		claims[claim.Name] = true
		volumes = append(volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	for _, v := range t.Spec.Volumes {
		if !claims[v.Name] {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return t
}

func (p *problems) statefulSetStrategy(s *appsv1.StatefulSetUpdateStrategy, at *field.Path) {
	switch rolling := s.RollingUpdate; s.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if rolling != nil {
			p.invalid(at.Child("rollingUpdate"), struct{ Partition, MaxUnavailable any }{rolling.Partition, nil}, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return // set by clients that name the type only
		}
		notNegative(p, at.Child("rollingUpdate", "partition"), rolling.Partition)
	default:
		p.invalid(at, struct{ Type, RollingUpdate any }{s.Type, rolling}, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func (p *problems) daemonSet(set, old *appsv1.DaemonSet) {
	s, at := &set.Spec, spec.Child("template")
	if old != nil {
		p.immutable(spec.Child("selector"), s.Selector, old.Spec.Selector)
	}
	p.labelSelector(spec.Child("selector"), s.Selector)
	if parsed, ok := parsed(s.Selector); ok && !parsed.Matches(labels.Set(s.Template.Labels)) {
		p.invalid(at.Child("metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`")
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		p.invalid(spec.Child("selector"), s.Selector, "empty selector is invalid for daemonset")
	}
	p.template(&s.Template, at)
	p.runsForever(&s.Template.Spec, "DaemonSet", at.Child("spec"))
	notNegative(p, spec.Child("minReadySeconds"), &s.MinReadySeconds)
	at = spec.Child("updateStrategy")
	switch rolling := s.UpdateStrategy.RollingUpdate; s.UpdateStrategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		at = at.Child("rollingUpdate")
		p.amount(at.Child("maxUnavailable"), rolling.MaxUnavailable)
		p.amount(at.Child("maxSurge"), rolling.MaxSurge)
		p.atMostAll(at.Child("maxUnavailable"), rolling.MaxUnavailable)
		p.atMostAll(at.Child("maxSurge"), rolling.MaxSurge)
		switch {
		case !isNone(rolling.MaxUnavailable) && !isNone(rolling.MaxSurge):
			p.invalid(at.Child("maxSurge"), rolling.MaxSurge, "may not be set when maxUnavailable is non-zero")
		case isNone(rolling.MaxUnavailable) && isNone(rolling.MaxSurge):
			p.required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
		}
	default:
		p.add(field.NotSupported(at, struct{ Type, RollingUpdate any }{s.UpdateStrategy.Type, rolling}, []string{"RollingUpdate", "OnDelete"}))
	}
	notNegative(p, spec.Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
}

// amount checks a number or percentage of pods.
func (p *problems) amount(at *field.Path, n *intstr.IntOrString) {
	if n == nil {
		return
	}
	if n.Type == intstr.String {
		p.invalid(at, *n, utilvalidation.IsValidPercent(n.StrVal)...)
		return
	}
	notNegative(p, at, &n.IntVal)
}

// percent returns the number of a percentage.
func percent(n *intstr.IntOrString) (int, bool) {
	if n == nil || n.Type != intstr.String || len(utilvalidation.IsValidPercent(n.StrVal)) > 0 {
		return 0, false
	}
	value, err := strconv.Atoi(n.StrVal[:len(n.StrVal)-1])
	return value, err == nil
}

// isNone reports whether an amount is 0 or 0%.
func isNone(n *intstr.IntOrString) bool {
	if value, ok := percent(n); ok {
		return value == 0
	}
	return n != nil && n.IntValue() == 0
}

func (p *problems) atMostAll(at *field.Path, n *intstr.IntOrString) {
	if value, ok := percent(n); ok && value > 100 {
		p.invalid(at, *n, "must not be greater than 100%")
	}
}
