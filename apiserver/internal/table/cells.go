package table

import (
	"cmp"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	containersColumn = col("Containers", "string", 1, "Names of each container in the template.")
	createdColumn    = col("Created At", "date", 0, ageColumn.Description)
	imagesColumn     = col("Images", "string", 1, "Images referenced by each container in the template.")
)

// layouts holds the columns of common kinds. Other kinds have name and age.
var layouts = map[string][]metav1.TableColumnDefinition{
	"pods": {nameColumn, col("Ready", "string", 0, "The aggregate readiness state of this pod for accepting traffic."),
		col("Status", "string", 0, "The aggregate status of the containers in this pod."),
		col("Restarts", "string", 0, "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
		ageColumn, col("IP", "string", 1, doc(corev1.PodStatus{}, "podIP")), col("Node", "string", 1, doc(corev1.PodSpec{}, "nodeName")),
		col("Nominated Node", "string", 1, doc(corev1.PodStatus{}, "nominatedNodeName")), col("Readiness Gates", "string", 1, doc(corev1.PodSpec{}, "readinessGates"))},
	"deployments.apps": {nameColumn, col("Ready", "string", 0, "Number of the pod with ready state"),
		col("Up-to-date", "string", 0, doc(appsv1.DeploymentStatus{}, "updatedReplicas")), col("Available", "string", 0, doc(appsv1.DeploymentStatus{}, "availableReplicas")),
		ageColumn, containersColumn, imagesColumn, col("Selector", "string", 1, doc(appsv1.DeploymentSpec{}, "selector"))},
	"replicasets.apps": {nameColumn, col("Desired", "integer", 0, doc(appsv1.ReplicaSetSpec{}, "replicas")), col("Current", "integer", 0, doc(appsv1.ReplicaSetStatus{}, "replicas")),
		col("Ready", "integer", 0, doc(appsv1.ReplicaSetStatus{}, "readyReplicas")), ageColumn, containersColumn, imagesColumn,
		col("Selector", "string", 1, doc(appsv1.ReplicaSetSpec{}, "selector"))},
	"statefulsets.apps": {nameColumn, col("Ready", "string", 0, "Number of the pod with ready state"), ageColumn, containersColumn, imagesColumn},
	"daemonsets.apps": {nameColumn, col("Desired", "integer", 0, doc(appsv1.DaemonSetStatus{}, "desiredNumberScheduled")),
		col("Current", "integer", 0, doc(appsv1.DaemonSetStatus{}, "currentNumberScheduled")), col("Ready", "integer", 0, doc(appsv1.DaemonSetStatus{}, "numberReady")),
		col("Up-to-date", "integer", 0, doc(appsv1.DaemonSetStatus{}, "updatedNumberScheduled")), col("Available", "integer", 0, doc(appsv1.DaemonSetStatus{}, "numberAvailable")),
		col("Node Selector", "string", 0, doc(corev1.PodSpec{}, "nodeSelector")), ageColumn, containersColumn, imagesColumn,
		col("Selector", "string", 1, doc(appsv1.DaemonSetSpec{}, "selector"))},
	"jobs.batch": {nameColumn, col("Status", "string", 0, "Status of the job."), col("Completions", "string", 0, doc(batchv1.JobStatus{}, "succeeded")),
		col("Duration", "string", 0, "Time required to complete the job."), ageColumn, containersColumn, imagesColumn,
		col("Selector", "string", 1, doc(batchv1.JobSpec{}, "selector"))},
	"cronjobs.batch": {nameColumn, col("Schedule", "string", 0, doc(batchv1.CronJobSpec{}, "schedule")), col("Timezone", "string", 0, doc(batchv1.CronJobSpec{}, "timeZone")),
		col("Suspend", "boolean", 0, doc(batchv1.CronJobSpec{}, "suspend")), col("Active", "integer", 0, doc(batchv1.CronJobStatus{}, "active")),
		col("Last Schedule", "string", 0, doc(batchv1.CronJobStatus{}, "lastScheduleTime")), ageColumn, containersColumn, imagesColumn,
		col("Selector", "string", 1, doc(batchv1.JobSpec{}, "selector"))},
	"horizontalpodautoscalers.autoscaling": {nameColumn, col("Reference", "string", 0, doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "scaleTargetRef")),
		col("Targets", "string", 0, doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "metrics")), col("MinPods", "string", 0, doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "minReplicas")),
		col("MaxPods", "string", 0, doc(autoscalingv2.HorizontalPodAutoscalerSpec{}, "maxReplicas")),
		col("Replicas", "string", 0, doc(autoscalingv2.HorizontalPodAutoscalerStatus{}, "currentReplicas")), ageColumn},
	"nodes": {nameColumn, col("Status", "string", 0, "The status of the node"), col("Roles", "string", 0, "The roles of the node"), ageColumn,
		col("Version", "string", 0, doc(corev1.NodeSystemInfo{}, "kubeletVersion")), col("Internal-IP", "string", 1, doc(corev1.NodeStatus{}, "addresses")),
		col("External-IP", "string", 1, doc(corev1.NodeStatus{}, "addresses")), col("OS-Image", "string", 1, doc(corev1.NodeSystemInfo{}, "osImage")),
		col("Kernel-Version", "string", 1, doc(corev1.NodeSystemInfo{}, "kernelVersion")),
		col("Container-Runtime", "string", 1, doc(corev1.NodeSystemInfo{}, "containerRuntimeVersion"))},
	"namespaces": {nameColumn, col("Status", "string", 0, "The status of the namespace"), ageColumn},
	"services": {nameColumn, col("Type", "string", 0, doc(corev1.ServiceSpec{}, "type")), col("Cluster-IP", "string", 0, doc(corev1.ServiceSpec{}, "clusterIP")),
		col("External-IP", "string", 0, doc(corev1.ServiceSpec{}, "externalIPs")), col("Port(s)", "string", 0, doc(corev1.ServiceSpec{}, "ports")), ageColumn,
		col("Selector", "string", 1, doc(corev1.ServiceSpec{}, "selector"))},
	"ingresses.networking.k8s.io": {nameColumn, col("Class", "string", 0, "The name of the IngressClass resource that should be used for additional configuration"),
		col("Hosts", "string", 0, "Hosts that incoming requests are matched against before the ingress rule"),
		col("Address", "string", 0, "Address is a list containing ingress points for the load-balancer"),
		col("Ports", "string", 0, "Ports of TLS configurations that open"), ageColumn},
	//lint:ignore SA1019 kube-apiserver still serves Endpoints
	"endpoints": {nameColumn, col("Endpoints", "string", 0, doc(corev1.Endpoints{}, "subsets")), ageColumn},
	"endpointslices.discovery.k8s.io": {nameColumn, col("AddressType", "string", 0, doc(discoveryv1.EndpointSlice{}, "addressType")),
		col("Ports", "string", 0, doc(discoveryv1.EndpointSlice{}, "ports")), col("Endpoints", "string", 0, doc(discoveryv1.EndpointSlice{}, "endpoints")), ageColumn},
	"persistentvolumeclaims": {nameColumn, col("Status", "string", 0, doc(corev1.PersistentVolumeClaimStatus{}, "phase")),
		col("Volume", "string", 0, doc(corev1.PersistentVolumeClaimSpec{}, "volumeName")), col("Capacity", "string", 0, doc(corev1.PersistentVolumeClaimStatus{}, "capacity")),
		col("Access Modes", "string", 0, doc(corev1.PersistentVolumeClaimStatus{}, "accessModes")), col("StorageClass", "string", 0, "StorageClass of the pvc"),
		col("VolumeAttributesClass", "string", 0, "VolumeAttributesClass of the pvc"), ageColumn,
		col("VolumeMode", "string", 1, doc(corev1.PersistentVolumeClaimSpec{}, "volumeMode"))},
	"persistentvolumes": {nameColumn, col("Capacity", "string", 0, doc(corev1.PersistentVolumeSpec{}, "capacity")),
		col("Access Modes", "string", 0, doc(corev1.PersistentVolumeSpec{}, "accessModes")),
		col("Reclaim Policy", "string", 0, doc(corev1.PersistentVolumeSpec{}, "persistentVolumeReclaimPolicy")),
		col("Status", "string", 0, doc(corev1.PersistentVolumeStatus{}, "phase")), col("Claim", "string", 0, doc(corev1.PersistentVolumeSpec{}, "claimRef")),
		col("StorageClass", "string", 0, "StorageClass of the pv"), col("VolumeAttributesClass", "string", 0, "VolumeAttributesClass of the pv"),
		col("Reason", "string", 0, doc(corev1.PersistentVolumeStatus{}, "reason")), ageColumn, col("VolumeMode", "string", 1, doc(corev1.PersistentVolumeSpec{}, "volumeMode"))},
	"storageclasses.storage.k8s.io": {nameColumn, col("Provisioner", "string", 0, doc(storagev1.StorageClass{}, "provisioner")),
		col("ReclaimPolicy", "string", 0, doc(storagev1.StorageClass{}, "reclaimPolicy")), col("VolumeBindingMode", "string", 0, doc(storagev1.StorageClass{}, "volumeBindingMode")),
		col("AllowVolumeExpansion", "string", 0, doc(storagev1.StorageClass{}, "allowVolumeExpansion")), ageColumn},
	"resourcequotas": {nameColumn, col("Request", "string", 0, "Request represents a minimum amount of cpu/memory that a container may consume."),
		col("Limit", "string", 0, "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."), ageColumn},
	"poddisruptionbudgets.policy": {nameColumn, col("Min Available", "string", 0, "The minimum number of pods that must be available."),
		col("Max Unavailable", "string", 0, "The maximum number of pods that may be unavailable."),
		col("Allowed Disruptions", "integer", 0, "Calculated number of pods that may be disrupted at this time."), ageColumn},
	"leases.coordination.k8s.io":                    {nameColumn, col("Holder", "string", 0, doc(coordinationv1.LeaseSpec{}, "holderIdentity")), ageColumn},
	"roles.rbac.authorization.k8s.io":               {nameColumn, createdColumn},
	"clusterroles.rbac.authorization.k8s.io":        {nameColumn, createdColumn},
	"rolebindings.rbac.authorization.k8s.io":        bindingColumns("roleBinding", "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."),
	"clusterrolebindings.rbac.authorization.k8s.io": bindingColumns("clusterRoleBinding", "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."),
	"configmaps": {nameColumn, col("Data", "string", 0, doc(corev1.ConfigMap{}, "data")), ageColumn},
	"secrets":    {nameColumn, col("Type", "string", 0, doc(corev1.Secret{}, "type")), col("Data", "string", 0, doc(corev1.Secret{}, "data")), ageColumn},
	"customresourcedefinitions.apiextensions.k8s.io": {nameColumn, createdColumn},
	"events": {col("Last Seen", "string", 0, doc(corev1.Event{}, "lastTimestamp")), col("Type", "string", 0, doc(corev1.Event{}, "type")),
		col("Reason", "string", 0, doc(corev1.Event{}, "reason")), col("Object", "string", 0, doc(corev1.Event{}, "involvedObject")),
		col("Message", "string", 0, doc(corev1.Event{}, "message"))},
}

// builtinCells returns the values of a row of a kind with a layout, or nil.
func builtinCells(obj runtime.Object, age any) []any {
	name := kinds.MetaOf(obj).GetName()
	switch o := obj.(type) {
	case *corev1.Pod:
		ready, restarts := 0, int64(0)
		for _, c := range o.Status.ContainerStatuses {
			if c.Ready {
				ready++
			}
			restarts += int64(c.RestartCount)
		}
		return []any{name, fmt.Sprintf("%d/%d", ready, len(o.Spec.Containers)), podStatus(o), strconv.FormatInt(restarts, 10), age,
			none(o.Status.PodIP), none(o.Spec.NodeName), none(o.Status.NominatedNodeName), readinessGates(o)}
	case *appsv1.Deployment:
		return append([]any{name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, value(o.Spec.Replicas)), int64(o.Status.UpdatedReplicas), int64(o.Status.AvailableReplicas), age},
			templateCells(o.Spec.Template, o.Spec.Selector)...)
	case *appsv1.ReplicaSet:
		return append([]any{name, int64(value(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), age}, templateCells(o.Spec.Template, o.Spec.Selector)...)
	case *appsv1.StatefulSet:
		return append([]any{name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, value(o.Spec.Replicas)), age}, templateCells(o.Spec.Template, nil)[:2]...)
	case *appsv1.DaemonSet:
		s := &o.Status
		return append([]any{name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady), int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
			labels.FormatLabels(o.Spec.Template.Spec.NodeSelector), age}, templateCells(o.Spec.Template, o.Spec.Selector)...)
	case *batchv1.Job:
		return append([]any{name, jobStatus(o), jobCompletions(o), jobDuration(o), age}, templateCells(o.Spec.Template, o.Spec.Selector)...)
	case *batchv1.CronJob:
		last, suspended := none(""), "<unset>"
		if o.Status.LastScheduleTime != nil {
			last = metatable.ConvertToHumanReadableDateType(*o.Status.LastScheduleTime)
		}
		if o.Spec.Suspend != nil {
			suspended = map[bool]string{true: "True", false: "False"}[*o.Spec.Suspend]
		}
		job := o.Spec.JobTemplate.Spec
		return append([]any{name, o.Spec.Schedule, orText(o.Spec.TimeZone, none("")), suspended, int64(len(o.Status.Active)), last, age}, templateCells(job.Template, job.Selector)...)
	case *autoscalingv2.HorizontalPodAutoscaler:
		least := "<unset>"
		if o.Spec.MinReplicas != nil {
			least = fmt.Sprint(*o.Spec.MinReplicas)
		}
		return []any{name, o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name, metricTexts(o), least, int64(o.Spec.MaxReplicas), int64(o.Status.CurrentReplicas), age}
	case *corev1.Node:
		i, kernel := &o.Status.NodeInfo, cmp.Or(o.Status.NodeInfo.KernelVersion, "<unknown>")
		if i.Architecture != "" {
			kernel += " (" + i.Architecture + ")"
		}
		return []any{name, nodeStatus(o), nodeRoles(o), age, i.KubeletVersion, nodeAddress(o, corev1.NodeInternalIP), nodeAddress(o, corev1.NodeExternalIP),
			cmp.Or(i.OSImage, "<unknown>"), kernel, cmp.Or(i.ContainerRuntimeVersion, "<unknown>")}
	case *corev1.Namespace:
		return []any{name, string(o.Status.Phase), age}
	case *corev1.Service:
		return []any{name, string(o.Spec.Type), none(o.Spec.ClusterIP), externalAddress(o), none(servicePorts(o.Spec.Ports)), age, labels.FormatLabels(o.Spec.Selector)}
	case *networkingv1.Ingress:
		var hosts []string
		for _, rule := range o.Spec.Rules {
			if rule.Host != "" {
				hosts = append(hosts, rule.Host)
			}
		}
		var addresses []string
		for _, in := range o.Status.LoadBalancer.Ingress {
			addresses = append(addresses, cmp.Or(in.IP, in.Hostname))
		}
		ports := "80"
		if len(o.Spec.TLS) > 0 {
			ports = "80, 443"
		}
		return []any{name, orText(o.Spec.IngressClassName, none("")), cmp.Or(firstOf(3, ",", hosts), "*"), distinct(addresses), ports, age}
	//lint:ignore SA1019 kube-apiserver still serves Endpoints
	case *corev1.Endpoints:
		return []any{name, endpointsText(o.Subsets), age}
	case *discoveryv1.EndpointSlice:
		var ports, addresses []string
		for _, p := range o.Ports {
			port := orText(p.Name, "*")
			if p.Port != nil {
				port = fmt.Sprint(*p.Port)
			}
			ports = append(ports, port)
		}
		for _, e := range o.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		return []any{name, string(o.AddressType), cmp.Or(firstOf(3, ",", ports), "<unset>"), cmp.Or(firstOf(3, ",", addresses), "<unset>"), age}
	case *corev1.PersistentVolumeClaim:
		return claimCells(o, age)
	case *corev1.ConfigMap:
		return []any{name, int64(len(o.Data) + len(o.BinaryData)), age}
	case *corev1.Secret:
		return []any{name, string(o.Type), int64(len(o.Data)), age}
	case *corev1.Event:
		return []any{metatable.ConvertToHumanReadableDateType(o.LastTimestamp), o.Type, o.Reason, strings.ToLower(o.InvolvedObject.Kind) + "/" + o.InvolvedObject.Name, o.Message}
	}
	return adminCells(obj, age)
}

// templateCells returns the names and images of a template's containers, and a selector.
func templateCells(t corev1.PodTemplateSpec, selector *metav1.LabelSelector) []any {
	var names, images []string
	for _, c := range t.Spec.Containers {
		names, images = append(names, c.Name), append(images, c.Image)
	}
	return []any{strings.Join(names, ","), strings.Join(images, ","), metav1.FormatLabelSelector(selector)}
}

func claimCells(c *corev1.PersistentVolumeClaim, age any) []any {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		size := c.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = size.String(), accessModes(c.Status.AccessModes)
	}
	class, annotated := c.Annotations[corev1.BetaStorageClassAnnotation]
	if !annotated {
		class = orText(c.Spec.StorageClassName, "")
	}
	return []any{c.Name, phase, c.Spec.VolumeName, capacity, modes, class, orText(c.Spec.VolumeAttributesClassName, "<unset>"), age, orText(c.Spec.VolumeMode, "<unset>")}
}

// firstOf joins the first n texts and says how many more there are.
func firstOf(n int, separator string, texts []string) string {
	if len(texts) <= n {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(texts[:n], separator), len(texts)-n)
}

// distinct joins different texts in order.
func distinct(texts []string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

//lint:ignore SA1019 kube-apiserver still serves Endpoints
func endpointsText(subsets []corev1.EndpointSubset) string {
	if len(subsets) == 0 {
		return none("")
	}
	var all []string
	for _, s := range subsets {
		for _, port := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(port.Port))))
			}
		}
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				all = append(all, a.IP)
			}
		}
	}
	return firstOf(3, ",", all)
}

func servicePorts(ports []corev1.ServicePort) string {
	var all []string
	for _, p := range ports {
		text := fmt.Sprint(p.Port)
		if p.NodePort > 0 {
			text += fmt.Sprintf(":%d", p.NodePort)
		}
		all = append(all, text+"/"+string(p.Protocol))
	}
	return strings.Join(all, ",")
}

// externalAddress returns where a service is reached from outside of the cluster.
func externalAddress(svc *corev1.Service) string {
	external := strings.Join(svc.Spec.ExternalIPs, ",")
	switch svc.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		var balancers []string
		for _, in := range svc.Status.LoadBalancer.Ingress {
			balancers = append(balancers, cmp.Or(in.IP, in.Hostname))
		}
		return cmp.Or(strings.Trim(distinct(balancers)+","+external, ","), "<pending>")
	case corev1.ServiceTypeExternalName:
		return svc.Spec.ExternalName
	}
	return none(external)
}

func metricTexts(a *autoscalingv2.HorizontalPodAutoscaler) string {
	var all []string
	for i := range a.Spec.Metrics {
		var now autoscalingv2.MetricStatus
		if i < len(a.Status.CurrentMetrics) {
			now = a.Status.CurrentMetrics[i]
		}
		all = append(all, metricText(&a.Spec.Metrics[i], &now))
	}
	return none(firstOf(2, ", ", all))
}

// metricText returns the current and the wanted value of a metric.
func metricText(m *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	var want autoscalingv2.MetricTarget
	var is autoscalingv2.MetricValueStatus
	resource, average, known := "", "", false
	for _, source := range []string{"External", "Object", "Pods", "Resource", "ContainerResource"} {
		spec, status := reflect.ValueOf(m).Elem().FieldByName(source), reflect.ValueOf(now).Elem().FieldByName(source)
		if known || spec.IsNil() {
			continue
		}
		known, want = true, spec.Elem().FieldByName("Target").Interface().(autoscalingv2.MetricTarget)
		if !status.IsNil() {
			is = status.Elem().FieldByName("Current").Interface().(autoscalingv2.MetricValueStatus)
		}
		if name := spec.Elem().FieldByName("Name"); name.IsValid() {
			resource = name.String() + ": "
		}
		if source == "External" || source == "Object" {
			average = " (avg)"
		}
	}
	if !known {
		return "<unknown type>"
	}
	current, wanted := "<unknown>", "<auto>"
	switch {
	case want.AverageValue != nil:
		if is.AverageValue != nil {
			current = is.AverageValue.String()
		}
		wanted = want.AverageValue.String() + average
	case resource != "":
		if is.AverageUtilization != nil {
			current = fmt.Sprintf("%d%%", *is.AverageUtilization)
		}
		if want.AverageUtilization != nil {
			wanted = fmt.Sprintf("%d%%", *want.AverageUtilization)
		}
	default:
		if is.Value != nil {
			current = is.Value.String()
		}
		wanted = want.Value.String()
	}
	return resource + current + "/" + wanted
}

// orText returns a text, or another one if it is nil.
func orText[T ~string](p *T, other string) string {
	if p == nil {
		return other
	}
	return string(*p)
}
