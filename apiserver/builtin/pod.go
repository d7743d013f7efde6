package builtin

import (
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pod validates a pod, or its update if old is not nil.
func (p *problems) pod(pod, old *corev1.Pod) {
	p.mirrorPod(pod)
	p.validPod(&pod.Spec)
	if old != nil {
		p.podAnnotations(pod.Annotations, old.Annotations)
		p.mirrorPod(pod) // kube-apiserver names this cause twice
		p.podUpdate(&pod.Spec, &old.Spec)
		return
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		p.forbidden(spec.Child("ephemeralContainers"), "cannot be set on create")
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		p.forbidden(spec.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
}

// mirrorPod checks that a mirror pod has a node.
func (p *problems) mirrorPod(pod *corev1.Pod) {
	if value, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok && pod.Spec.NodeName == "" {
		p.invalid(field.NewPath("metadata", "annotations").Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
}

// podAnnotations checks the annotations that an update may not change.
func (p *problems) podAnnotations(is, was map[string]string) {
	check := func(from, to map[string]string, change string) {
		for _, key := range sortedKeys(from) {
			if now, ok := to[key]; ok && (now == from[key] || change == "add") {
				continue
			}
			if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
				p.forbidden(field.NewPath("metadata", "annotations").Key(key), "may not "+change+" AppArmor annotations")
			} else if key == corev1.MirrorPodAnnotationKey {
				p.forbidden(field.NewPath("metadata", "annotations").Key(key), "may not "+change+" mirror pod annotation")
			}
		}
	}
	check(was, is, "remove or update")
	check(is, was, "add")
}

// validPod validates the spec of a pod that is not a template.
func (p *problems) validPod(s *corev1.PodSpec) {
	p.podSpec(s, spec)
	for at, containers := range podContainers(s) {
		for i, c := range containers {
			p.trimmed(at.Index(i).Child("image"), c.Image)
		}
	}
}

// podContainers iterates over the containers and init containers of a pod.
func podContainers(s *corev1.PodSpec) func(func(*field.Path, []corev1.Container) bool) {
	return func(yield func(*field.Path, []corev1.Container) bool) {
		_ = yield(spec.Child("containers"), s.Containers) && yield(spec.Child("initContainers"), s.InitContainers)
	}
}

func (p *problems) trimmed(at *field.Path, image string) {
	if strings.TrimSpace(image) != image {
		p.invalid(at, image, "must not have leading or trailing whitespace")
	}
}

// podUpdate checks that only the fields that may change do.
func (p *problems) podUpdate(now, old *corev1.PodSpec) {
	olds := [][]corev1.Container{old.Containers, old.InitContainers}
	for at, containers := range podContainers(now) {
		if len(containers) != len(olds[0]) {
			p.forbidden(at, "pod updates may not add or remove containers")
			return
		}
		for i, c := range containers {
			p.need(at.Index(i).Child("image"), c.Image)
			p.trimmed(at.Index(i).Child("image"), c.Image)
		}
		olds = olds[1:]
	}
	if !p.deadlineUpdate(now.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds) {
		return
	}
	p.onlyAdded(now.Tolerations, old.Tolerations, spec.Child("tolerations"))
	for i, gate := range now.SchedulingGates {
		if !slices.Contains(old.SchedulingGates, gate) {
			p.forbidden(spec.Child("schedulingGates").Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+gate.Name+"'")
		}
	}
	if equality.Semantic.DeepEqual(now, old) {
		return
	}
	rest := now.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds, rest.SchedulingGates, rest.Tolerations = old.ActiveDeadlineSeconds, old.SchedulingGates, old.Tolerations
	if valueOf(old.TerminationGracePeriodSeconds) < 0 && valueOf(rest.TerminationGracePeriodSeconds) == 1 {
		rest.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	if len(old.SchedulingGates) > 0 {
		rest.NodeSelector, rest.Affinity = old.NodeSelector, old.Affinity
	}
	if !equality.Semantic.DeepEqual(rest, old) {
		p.forbidden(spec, "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"+
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"+diff.Diff(*old, *rest))
	}
}

// deadlineUpdate checks a change of the active deadline, which may only become shorter. It
// returns false if the remaining fields are not to be checked.
func (p *problems) deadlineUpdate(now, old *int64) bool {
	at := spec.Child("activeDeadlineSeconds")
	switch {
	case now == nil && old != nil:
		p.invalid(at, now, "must not update from a positive integer to nil value")
	case now != nil && (*now < 0 || *now > math.MaxInt32):
		p.invalid(at, *now, utilvalidation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case now != nil && old != nil && *old < *now:
		p.invalid(at, *now, "must be less than or equal to previous value")
		return false
	}
	return true
}

// onlyAdded checks that no toleration was removed.
func (p *problems) onlyAdded(now, old []corev1.Toleration, at *field.Path) {
	for _, was := range old {
		if !slices.ContainsFunc(now, func(t corev1.Toleration) bool {
			t.TolerationSeconds = was.TolerationSeconds
			return reflect.DeepEqual(t, was)
		}) {
			p.forbidden(at, "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	p.tolerations(now, at)
}

// template validates a pod template.
func (p *problems) template(t *corev1.PodTemplateSpec, at *field.Path) {
	p.add(metavalidation.ValidateLabels(t.Labels, at.Child("labels"))...)
	p.add(validation.ValidateAnnotations(t.Annotations, at.Child("annotations"))...)
	p.podSpec(&t.Spec, at.Child("spec"))
	if len(t.Spec.EphemeralContainers) > 0 {
		p.forbidden(at.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
}

// selected checks that a pod template has the labels that its owner selects.
func (p *problems) selected(t *corev1.PodTemplateSpec, selector labels.Selector, at *field.Path) {
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		p.invalid(at.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
	}
}

// runsForever checks the fields of a template whose pods are always restarted.
func (p *problems) runsForever(s *corev1.PodSpec, kind string, at *field.Path) {
	if s.RestartPolicy != corev1.RestartPolicyAlways {
		p.add(field.NotSupported(at.Child("restartPolicy"), s.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.ActiveDeadlineSeconds != nil {
		p.forbidden(at.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported")
	}
}

// podSpec validates a pod's spec at a path.
func (p *problems) podSpec(s *corev1.PodSpec, at *field.Path) {
	volumes := p.volumes(s.Volumes, at.Child("volumes"))
	p.containers(s, volumes, at)
	p.ephemeralContainers(s, volumes, at.Child("ephemeralContainers"))
	if s.HostNetwork {
		for i, c := range s.Containers {
			for j, port := range c.Ports {
				if port.HostPort != 0 && port.HostPort != port.ContainerPort {
					p.invalid(at.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
				}
			}
		}
	}
	oneOf(p, at.Child("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(p, at.Child("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	p.add(metavalidation.ValidateLabels(s.NodeSelector, at.Child("nodeSelector"))...)
	if sc := s.SecurityContext; sc != nil {
		p.ids(at.Child("securityContext"), map[string]*int64{"runAsUser": sc.RunAsUser, "runAsGroup": sc.RunAsGroup, "fsGroup": sc.FSGroup})
	}
	p.spreading(s.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	if s.ServiceAccountName != "" {
		p.subdomain(at.Child("serviceAccountName"), s.ServiceAccountName)
	}
	if s.NodeName != "" {
		p.subdomain(at.Child("nodeName"), s.NodeName)
	}
	if n := s.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		p.invalid(at.Child("activeDeadlineSeconds"), *n, utilvalidation.InclusiveRangeError(1, math.MaxInt32))
	}
	if s.Hostname != "" {
		p.label(at.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		p.label(at.Child("subdomain"), s.Subdomain)
	}
	p.tolerations(s.Tolerations, at.Child("tolerations"))
	if s.PriorityClassName != "" {
		p.subdomain(at.Child("priorityClassName"), s.PriorityClassName)
	}
	if s.PreemptionPolicy != nil {
		oneOf(p, at.Child("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

// ids checks user and group ids.
func (p *problems) ids(at *field.Path, ids map[string]*int64) {
	for _, name := range sortedKeys(ids) {
		if id := ids[name]; id != nil {
			p.invalid(at.Child(name), *id, utilvalidation.IsValidUserID(*id)...)
		}
	}
}

func (p *problems) tolerations(tolerations []corev1.Toleration, at *field.Path) {
	for i, t := range tolerations {
		at := at.Index(i)
		if t.Key != "" {
			p.add(metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			p.invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			p.invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if why := utilvalidation.IsValidLabelValue(t.Value); len(why) > 0 {
				p.invalid(at.Child("operator"), t.Value, strings.Join(why, ";"))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				p.invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")
			}
		default:
			emptyOr(p, at.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		emptyOr(p, at.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	}
}

func (p *problems) spreading(constraints []corev1.TopologySpreadConstraint, at *field.Path) {
	for i, c := range constraints {
		at := at.Index(i)
		if c.MaxSkew <= 0 {
			p.invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than zero")
		}
		if c.TopologyKey == "" {
			p.required(at.Child("topologyKey"), "can not be empty")
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			p.add(field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
		}
		p.labelSelector(at.Child("labelSelector"), c.LabelSelector)
	}
}

// parsed returns a label selector that matches nothing if it is nil, and false if it is
// invalid.
func parsed(selector *metav1.LabelSelector) (labels.Selector, bool) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return s, err == nil
}
