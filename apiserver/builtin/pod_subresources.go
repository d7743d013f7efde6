package builtin

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// isStatic reports whether a pod is the copy of one that only a node manages.
func isStatic(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// ephemeralContainers validates the ephemeral containers of a pod.
func (p *problems) ephemeralContainers(s *corev1.PodSpec, volumes map[string]bool, at *field.Path) {
	names := map[string]bool{}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		names[c.Name] = true
	}
	targets := maps.Clone(names)
	const why = "cannot be set for an Ephemeral Container"
	for i := range s.EphemeralContainers {
		ephemeral, at := &s.EphemeralContainers[i], at.Index(i)
		c := (*corev1.Container)(&ephemeral.EphemeralContainerCommon)
		p.container(c, volumes, at)
		p.trimmed(at.Child("image"), c.Image)
		if names[c.Name] {
			p.duplicate(at.Child("name"), c.Name)
		}
		names[c.Name] = true
		if target := ephemeral.TargetContainerName; target != "" && !targets[target] {
			p.add(field.NotFound(at.Child("targetContainerName"), target))
		}
		p.unset(at, why, []isSet{
			{"ports", c.Ports != nil}, {"resources", !equality.Semantic.DeepEqual(c.Resources, corev1.ResourceRequirements{})},
			{"resizePolicy", c.ResizePolicy != nil}, {"restartPolicy", c.RestartPolicy != nil}, {"restartPolicyRules", c.RestartPolicyRules != nil},
			{"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
			{"lifecycle", c.Lifecycle != nil}})
		for j, mount := range c.VolumeMounts {
			if mount.SubPath != "" {
				p.forbidden(at.Child("volumeMounts").Index(j).Child("subPath"), why)
			}
			if mount.SubPathExpr != "" {
				p.forbidden(at.Child("volumeMounts").Index(j).Child("subPathExpr"), why)
			}
		}
	}
}

// ephemeralUpdate validates a pod with other ephemeral containers. Those that it has must stay.
func (p *problems) ephemeralUpdate(pod, old *corev1.Pod) {
	if isStatic(old) {
		p.forbidden(field.NewPath(""), "static pods do not support ephemeral containers")
		return
	}
	p.validPod(&pod.Spec)
	at := spec.Child("ephemeralContainers")
	for _, was := range old.Spec.EphemeralContainers {
		i := slices.IndexFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == was.Name })
		if i < 0 {
			p.forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name))
		} else if now := pod.Spec.EphemeralContainers[i]; !equality.Semantic.DeepEqual(was, now) {
			p.forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, now)))
		}
	}
}

// resize validates a pod with other resources of its containers.
func (p *problems) resize(pod, old *corev1.Pod) {
	switch {
	case isStatic(old):
		p.forbidden(field.NewPath(""), "static pods cannot be resized")
		return
	case old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows:
		p.forbidden(field.NewPath(""), "windows pods cannot be resized")
		return
	}
	p.validPod(&pod.Spec)
	class := old.Status.QOSClass
	setText(&class, qosClass(&old.Spec))
	if class != qosClass(&pod.Spec) {
		p.invalid(spec, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	running := slices.IndexFunc(old.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	if running >= 0 && old.Status.ContainerStatuses[running].Resources == nil {
		p.forbidden(spec, "Pod running on node without support for resize")
	}
	mains := p.sameContainers(pod.Spec.Containers, old.Spec.Containers, "containers")
	inits := p.sameContainers(pod.Spec.InitContainers, old.Spec.InitContainers, "initContainers")
	if !mains || !inits {
		return
	}
	p.noneRemoved(pod.Spec.InitContainers, old.Spec.InitContainers, spec.Child("initContainers"))
	p.noneRemoved(pod.Spec.Containers, old.Spec.Containers, spec.Child("containers"))
	for i := range pod.Spec.Containers {
		if resizesMore(&pod.Spec.Containers[i], &old.Spec.Containers[i]) {
			p.forbidden(spec, "only cpu and memory resources are mutable")
		}
	}
	for i := range pod.Spec.InitContainers {
		now, was := &pod.Spec.InitContainers[i], &old.Spec.InitContainers[i]
		at := spec.Child("initContainers").Index(i)
		if resizesMore(now, was) {
			p.forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable")
		}
		if valueOf(now.RestartPolicy) == corev1.ContainerRestartPolicyAlways || equality.Semantic.DeepEqual(now, was) {
			continue
		}
		for _, policy := range now.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				p.forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
			}
		}
	}
}

// sameContainers checks that a resize keeps the containers and their order.
func (p *problems) sameContainers(now, old []corev1.Container, name string) bool {
	if len(now) != len(old) {
		p.forbidden(spec.Child(name), name+" may not be added or removed on resize")
		return false
	}
	same := true
	for i := range now {
		if now[i].Name != old[i].Name {
			p.forbidden(spec.Child(name).Index(i).Child("name"), name+" may not be renamed or reordered on resize")
			same = false
		}
	}
	return same
}

// noneRemoved checks that a resize removes no request or limit.
func (p *problems) noneRemoved(now, old []corev1.Container, at *field.Path) {
	removed := func(now, old corev1.ResourceList) bool {
		for name := range old {
			if _, ok := now[name]; !ok {
				return true
			}
		}
		return false
	}
	for i := range now {
		at := at.Index(i).Child("resources")
		if removed(now[i].Resources.Requests, old[i].Resources.Requests) {
			p.forbidden(at.Child("requests"), "resource requests cannot be removed")
		}
		if removed(now[i].Resources.Limits, old[i].Resources.Limits) {
			p.forbidden(at.Child("limits"), "resource limits cannot be removed")
		}
	}
}

// resizesMore reports whether a container differs in more than its CPU and memory.
func resizesMore(now, old *corev1.Container) bool {
	rest := func(c *corev1.Container) *corev1.Container {
		c = c.DeepCopy()
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			delete(list, corev1.ResourceCPU)
			delete(list, corev1.ResourceMemory)
		}
		return c
	}
	return !equality.Semantic.DeepEqual(rest(now), rest(old))
}
