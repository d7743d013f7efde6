package builtin

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultPod sets the defaults of pods. Some of them do not apply to pod templates.
func defaultPod(pod *corev1.Pod) {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1)) // unlike that of a pod template
	}
	defaultPodSpec(&pod.Spec)
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			for name, limit := range c.Resources.Limits {
				if c.Resources.Requests == nil {
					c.Resources.Requests = corev1.ResourceList{}
				}
				if _, set := c.Resources.Requests[name]; !set {
					c.Resources.Requests[name] = limit.DeepCopy()
				}
			}
			for j := range c.Ports {
				if pod.Spec.HostNetwork {
					setNumber(&c.Ports[j].HostPort, c.Ports[j].ContainerPort)
				}
			}
		}
	}
	setDefault(&pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
}

// defaultPodSpec sets the defaults of pods and pod templates.
func defaultPodSpec(s *corev1.PodSpec) {
	setText(&s.DNSPolicy, corev1.DNSClusterFirst)
	setText(&s.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&s.SecurityContext, corev1.PodSecurityContext{})
	setDefault(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	setText(&s.SchedulerName, corev1.DefaultSchedulerName)
	// The deprecated field is an alias.
	setText(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i].VolumeSource)
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		defaultContainer((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(s.Overhead)
}

func defaultContainer(c *corev1.Container) {
	setText(&c.ImagePullPolicy, pullPolicy(c.Image))
	setText(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setText(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setText(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for _, env := range c.Env {
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil {
			setText(&env.ValueFrom.FieldRef.APIVersion, "v1")
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		setNumber(&probe.TimeoutSeconds, 1)
		setNumber(&probe.PeriodSeconds, 10)
		setNumber(&probe.SuccessThreshold, 1)
		setNumber(&probe.FailureThreshold, 3)
		defaultHTTPGet(probe.HTTPGet)
		if probe.GRPC != nil {
			setDefault(&probe.GRPC.Service, "")
		}
	}
	if c.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		setText(&get.Path, "/")
		setText(&get.Scheme, corev1.URISchemeHTTP)
	}
}

// pullPolicy returns Always for an image with the tag latest, or with neither tag nor digest.
func pullPolicy(image string) corev1.PullPolicy {
	name, digest, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tag == "latest" || tag == "" && digest == "" && image != "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// roundUp rounds quantities to thousandths.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func defaultVolume(v *corev1.VolumeSource) {
	switch {
	case *v == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.Secret != nil:
		setDefault(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		setDefault(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		setDefault(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		setDefault(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				setDefault(&source.ServiceAccountToken.ExpirationSeconds, 60*60)
			}
			if source.DownwardAPI != nil {
				defaultDownward(source.DownwardAPI.Items)
			}
		}
	case v.HostPath != nil:
		setDefault(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		defaultClaim(&v.Ephemeral.VolumeClaimTemplate.Spec)
	case v.Image != nil:
		setText(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultDownward(files []corev1.DownwardAPIVolumeFile) {
	for _, file := range files {
		if file.FieldRef != nil {
			setText(&file.FieldRef.APIVersion, "v1")
		}
	}
}

// preparePod sets what the admission plugins ServiceAccount, Priority and
// DefaultTolerationSeconds set, and the QoS class. It does not mount a token.
func preparePod(pod, old *corev1.Pod) {
	s := &pod.Spec
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			seconds := int64(300)
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
	if old != nil {
		if s.Priority == nil {
			s.Priority = old.Spec.Priority
		}
		if s.PreemptionPolicy == nil {
			s.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
		return
	}
	if s.PriorityClassName == "" {
		setDefault(&s.Priority, 0)
		setDefault(&s.PreemptionPolicy, corev1.PreemptLowerPriority)
	}
	setText(&s.ServiceAccountName, "default")
	s.DeprecatedServiceAccount = s.ServiceAccountName
	setText(&pod.Status.QOSClass, qosClass(s))
	if len(s.SchedulingGates) > 0 && len(pod.Status.Conditions) == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}}
	}
}

// qosClass returns Guaranteed if all containers have equal requests and limits of CPU and
// memory, and BestEffort if none has any.
func qosClass(s *corev1.PodSpec) corev1.PodQOSClass {
	class := corev1.PodQOSBestEffort
	guaranteed := true
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				class = corev1.PodQOSBurstable
			}
			guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
		}
	}
	if class == corev1.PodQOSBurstable && guaranteed {
		return corev1.PodQOSGuaranteed
	}
	return class
}
