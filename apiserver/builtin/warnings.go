package builtin

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns what kube-apiserver warns about in a valid object. old is nil for a new one.
// It modifies neither object.
func Warnings(obj, old runtime.Object) []string {
	var w warnings
	created := old == nil
	// Templates are checked again when the spec changes.
	changed := created || obj.(metav1.Object).GetGeneration() != old.(metav1.Object).GetGeneration()
	switch o := obj.(type) {
	case *corev1.Pod:
		if created {
			w.pod(nil, &o.ObjectMeta, &o.Spec)
		}
	case *corev1.Service:
		w.service(o)
	case *corev1.Secret:
		if o.Type == corev1.SecretTypeTLS {
			if _, err := tls.X509KeyPair(o.Data[corev1.TLSCertKey], o.Data[corev1.TLSPrivateKeyKey]); err != nil {
				w.add("%v", err)
			}
		}
	case *corev1.PersistentVolumeClaim:
		w.claim(spec, &o.Spec)
	case *corev1.ReplicationController:
		w.podNames(o.Name, created)
		if o.Spec.Template != nil {
			w.template(spec, o.Spec.Template, changed)
		}
	case *appsv1.Deployment:
		w.podNames(o.Name, created)
		w.template(spec, &o.Spec.Template, changed)
	case *appsv1.ReplicaSet:
		w.podNames(o.Name, created)
		w.template(spec, &o.Spec.Template, changed)
	case *appsv1.DaemonSet:
		w.template(spec, &o.Spec.Template, changed)
	case *appsv1.StatefulSet:
		w.template(spec, &o.Spec.Template, changed)
		for i := range o.Spec.VolumeClaimTemplates {
			w.claim(spec.Child("volumeClaimTemplates").Index(i), &o.Spec.VolumeClaimTemplates[i].Spec)
		}
		if limit := o.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
			w.add("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
		}
	case *batchv1.Job:
		w.podNames(o.Name, created)
		w.template(spec, &o.Spec.Template, changed)
	case *batchv1.CronJob:
		w.podNames(o.Name, created)
		w.template(spec.Child("jobTemplate", "spec"), &o.Spec.JobTemplate.Spec.Template, changed)
	case *networkingv1.Ingress:
		if class := "kubernetes.io/ingress.class"; created && has(o.Annotations, class) && o.Spec.IngressClassName == nil {
			w.add("annotation %q is deprecated, please use 'spec.ingressClassName' instead", class)
		}
	case *corev1.ServiceAccount:
		const enforce = "kubernetes.io/enforce-mountable-secrets"
		if has(o.Annotations, enforce) && (created || !has(old.(*corev1.ServiceAccount).Annotations, enforce)) {
			w.add("metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets", enforce)
		}
	}
	return w
}

func has(annotations map[string]string, name string) bool {
	_, ok := annotations[name]
	return ok
}

type warnings []string

func (w *warnings) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// podNames warns about a name from which names of pods are made.
func (w *warnings) podNames(name string, created bool) {
	if problems := validation.IsDNS1123Label(name); created && len(problems) > 0 {
		w.add("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", problems)
	}
}

func (w *warnings) template(in *field.Path, t *corev1.PodTemplateSpec, changed bool) {
	if changed {
		w.pod(in.Child("template"), &t.ObjectMeta, &t.Spec)
	}
}

func (w *warnings) service(o *corev1.Service) {
	external, headless := o.Spec.Type == corev1.ServiceTypeExternalName, o.Spec.Type == corev1.ServiceTypeClusterIP && o.Spec.ClusterIP == corev1.ClusterIPNone
	if old := corev1.DeprecatedAnnotationTopologyAwareHints; has(o.Annotations, old) {
		w.add("annotation %s is deprecated, please use %s instead", old, corev1.AnnotationTopologyMode)
	}
	if headless && o.Spec.LoadBalancerIP != "" {
		w.add("spec.loadBalancerIP is ignored for headless services")
	}
	if headless && len(o.Spec.ExternalIPs) > 0 {
		w.add("spec.externalIPs is ignored for headless services")
	}
	if headless && o.Spec.SessionAffinity != corev1.ServiceAffinityNone {
		w.add("spec.SessionAffinity is ignored for headless services")
	}
	for i, ip := range o.Spec.ExternalIPs {
		*w = append(*w, validation.GetWarningsForIP(spec.Child("externalIPs").Index(i), ip)...)
	}
	if len(o.Spec.ExternalIPs) > 0 && !headless && !external {
		w.add("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if len(o.Spec.ExternalIPs) > 0 && external {
		w.add("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if o.Spec.ExternalName != "" && !external {
		w.add("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if d := o.Spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		w.add("spec.trafficDistribution: %q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone)
	}
}

func (w *warnings) claim(at *field.Path, c *corev1.PersistentVolumeClaimSpec) {
	w.fractional(at.Child("resources", "requests"), c.Resources.Requests, corev1.ResourceStorage)
	w.fractional(at.Child("resources", "limits"), c.Resources.Limits, corev1.ResourceStorage)
}

// fractional warns about quantities of bytes that are not whole.
func (w *warnings) fractional(at *field.Path, list corev1.ResourceList, names ...corev1.ResourceName) {
	for _, name := range names {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.add("%s: fractional byte value %q is invalid, must be an integer", at.Key(string(name)), q.String())
		}
	}
}

// deprecatedLabels are the labels of nodes that pods should not select by.
var deprecatedLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"node-role.kubernetes.io/master":           `use "node-role.kubernetes.io/control-plane" instead`,
}

const noSelector = "%s: a null labelSelector results in matching no pod"

// pod warns about a pod or, with a path, a pod template.
func (w *warnings) pod(at *field.Path, m *metav1.ObjectMeta, s *corev1.PodSpec) {
	in := at.Child("spec")
	for _, label := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if text := deprecatedLabels[label]; text != "" {
			w.add("%s: %s", in.Child("nodeSelector").Key(label), text)
		}
	}
	for i, c := range s.TopologySpreadConstraints {
		each := in.Child("topologySpreadConstraints").Index(i)
		if text := deprecatedLabels[c.TopologyKey]; text != "" {
			w.add("%s: %s is %s", each.Child("topologyKey"), c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.add(noSelector, each.Child("labelSelector"))
		}
	}
	if name := "scheduler.alpha.kubernetes.io/critical-pod"; has(m.Annotations, name) {
		w.add(`%s: non-functional in v1.16+; use the "priorityClassName" field instead`, at.Child("metadata", "annotations").Key(name))
	}
	var secrets []string
	for i, secret := range s.ImagePullSecrets {
		if slices.Contains(secrets, secret.Name) {
			w.add("%s: duplicate name %q", in.Child("imagePullSecrets").Index(i).Child("name"), secret.Name)
		}
		secrets = append(secrets, secret.Name)
	}
	for i, secret := range s.ImagePullSecrets {
		if secret.Name == "" {
			w.add("%s: invalid empty name %q", in.Child("imagePullSecrets").Index(i).Child("name"), secret.Name)
		}
	}
	for i := range s.InitContainers {
		w.container(in.Child("initContainers").Index(i), &s.InitContainers[i])
	}
	for i := range s.Containers {
		w.container(in.Child("containers").Index(i), &s.Containers[i])
	}
	w.ports(in, s)
	if grace := s.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.add("%s: must be >= 0; negative values are invalid and will be treated as 1", in.Child("terminationGracePeriodSeconds"))
	}
	if s.Affinity == nil {
		return
	}
	if a := s.Affinity.PodAffinity; a != nil {
		w.affinity(in.Child("affinity", "podAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Affinity.PodAntiAffinity; a != nil {
		w.affinity(in.Child("affinity", "podAntiAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (w *warnings) affinity(at *field.Path, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i, term := range required {
		if term.LabelSelector == nil {
			w.add(noSelector, at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"))
		}
	}
	for i, term := range preferred {
		if term.PodAffinityTerm.LabelSelector == nil {
			w.add(noSelector, at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"))
		}
	}
}

func (w *warnings) container(at *field.Path, c *corev1.Container) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		w.fractional(at.Child("resources", "limits"), c.Resources.Limits, name)
		w.fractional(at.Child("resources", "requests"), c.Resources.Requests, name)
	}
	var names []string
	for i, v := range c.Env {
		earlier := "$(" + v.Name + ")"
		extends := v.ValueFrom == nil && v.Value != earlier && strings.Contains(v.Value, earlier)
		if slices.Contains(names, v.Name) && !extends {
			w.add("%s: hides previous definition of %q, which may be dropped when using apply", at.Child("env").Index(i), v.Name)
		}
		names = append(names, v.Name)
	}
}

// ports warns about ports that two containers, or one twice, have.
func (w *warnings) ports(in *field.Path, s *corev1.PodSpec) {
	type placed struct {
		corev1.ContainerPort
		at *field.Path
	}
	var all []placed
	place := func(at *field.Path, containers []corev1.Container) {
		for i, c := range containers {
			for j, port := range c.Ports {
				all = append(all, placed{port, at.Index(i).Child("ports").Index(j)})
			}
		}
	}
	place(in.Child("initContainers"), s.InitContainers)
	place(in.Child("containers"), s.Containers)
	for i, port := range all {
		for _, other := range all[:i] {
			switch {
			case port.ContainerPort.ContainerPort != other.ContainerPort.ContainerPort || port.Protocol != other.Protocol:
			case port.HostIP == other.HostIP && port.HostPort == other.HostPort:
				w.add("%s: duplicate port definition with %s", port.at, other.at)
			case port.HostPort == 0 || other.HostPort == 0:
				w.add("%s: overlapping port definition with %s", port.at, other.at)
			case port.HostPort == other.HostPort && (port.HostIP == "") != (other.HostIP == ""):
				w.add("%s: dangerously ambiguous port definition with %s", port.at, other.at)
			}
		}
	}
	for i, port := range all {
		first := slices.IndexFunc(all[:i], func(o placed) bool { return o.Name == port.Name })
		if port.Name != "" && first >= 0 {
			w.add("%s: duplicate port name %q with %s, services and probes that select ports by name will use %s", port.at, port.Name, all[first].at, all[first].at)
		}
	}
}
