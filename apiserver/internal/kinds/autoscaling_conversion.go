package kinds

import (
	"encoding/json"
	gomaps "maps"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// HorizontalPodAutoscalers are stored in autoscaling/v2. Its v1 has one metric, the use of CPU, and
// annotations for everything else.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	statusesAnnotation   = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

// withoutAutoscaling returns a copy of annotations without those of v1.
func withoutAutoscaling(annotations map[string]string) map[string]string {
	out := gomaps.Clone(annotations)
	for _, name := range []string{
		metricsAnnotation, statusesAnnotation, conditionsAnnotation, behaviorAnnotation,
		"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
	} {
		delete(out, name)
	}
	return out
}

// autoscalerV1 converts an autoscaler to v1. The result shares memory with it.
func autoscalerV1(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta}
	FromFields(TreeOf(&h.Spec), &out.Spec)
	FromFields(TreeOf(&h.Status), &out.Status)
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	out.Annotations = withoutAutoscaling(h.Annotations)
	annotate := func(name string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			return // these types can be encoded
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[name] = string(text)
	}
	var others []autoscalingv2.MetricSpec
	for _, m := range h.Spec.Metrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil {
			if out.Spec.TargetCPUUtilizationPercentage == nil {
				out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
			}
			continue
		}
		others = append(others, m)
	}
	if len(others) > 0 {
		annotate(metricsAnnotation, convertMetrics[autoscalingv1.MetricSpec](others, sourceV1))
	}
	for _, m := range h.Status.CurrentMetrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	if len(h.Status.CurrentMetrics) > 0 {
		annotate(statusesAnnotation, convertMetrics[autoscalingv1.MetricStatus](h.Status.CurrentMetrics, sourceV1))
	}
	if b := h.Spec.Behavior; b != nil {
		annotate(behaviorAnnotation, behavior{rulesOf(b.ScaleUp), rulesOf(b.ScaleDown)})
	}
	if len(h.Status.Conditions) > 0 {
		annotate(conditionsAnnotation, h.Status.Conditions)
	}
	return out
}

// autoscalerV2 converts an autoscaler from v1. The result shares memory with it.
func autoscalerV2(h *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta}
	FromFields(TreeOf(&h.Spec), &out.Spec)
	FromFields(TreeOf(&h.Status), &out.Status)
	out.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	read := func(name string, into any) bool {
		text, found := h.Annotations[name]
		return found && json.Unmarshal([]byte(text), into) == nil
	}
	var others []autoscalingv1.MetricSpec
	if read(metricsAnnotation, &others) {
		out.Spec.Metrics = convertMetrics[autoscalingv2.MetricSpec](others, specV2)
	}
	use := h.Spec.TargetCPUUtilizationPercentage
	if use == nil && len(out.Spec.Metrics) == 0 {
		use = new(int32(80))
	}
	if use != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: use},
		}})
	}
	var b autoscalingv2.HorizontalPodAutoscalerBehavior // the names of its fields differ in case only
	if read(behaviorAnnotation, &b) && b != (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
		out.Spec.Behavior = &b
	}
	var statuses []autoscalingv1.MetricStatus
	if read(statusesAnnotation, &statuses) {
		out.Status.CurrentMetrics = convertMetrics[autoscalingv2.MetricStatus](statuses, statusV2)
	} else if use := h.Status.CurrentCPUUtilizationPercentage; use != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: use},
		}}}
	}
	read(conditionsAnnotation, &out.Status.Conditions)
	out.Annotations = withoutAutoscaling(h.Annotations)
	return out
}

// behavior and the types in it have the form of the annotation, which is that of kube-apiserver's
// internal type.
type behavior struct{ ScaleUp, ScaleDown *scalingRules }

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

type scalingPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func rulesOf(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy(p))
	}
	return out
}

// metricNames maps the fields of a metric's source, in specs and in statuses, from v1 to v2. In v1 the names differ
// between the sources; each type takes those that it has.
var metricNames = [][2]string{
	{"target", "describedObject"}, {"metricName", "metric.name"}, {"selector", "metric.selector"}, {"metricSelector", "metric.selector"},
	{"name", "name"}, {"container", "container"},
	{"targetValue", "target.value"}, {"averageValue", "target.averageValue"}, {"targetAverageValue", "target.averageValue"},
	{"targetAverageUtilization", "target.averageUtilization"},
	{"currentValue", "current.value"}, {"averageValue", "current.averageValue"}, {"currentAverageValue", "current.averageValue"},
	{"currentAverageUtilization", "current.averageUtilization"},
}

// sourceV1 converts the source of a metric to v1.
func sourceV1(_ string, source map[string]any) map[string]any {
	out := map[string]any{}
	for _, names := range metricNames {
		if v, found, _ := unstructured.NestedFieldNoCopy(source, strings.Split(names[1], ".")...); found {
			out[names[0]] = v
		}
	}
	return out
}

// statusV2 converts the source of a metric's status from v1.
func statusV2(_ string, source map[string]any) map[string]any {
	out := map[string]any{}
	for _, names := range metricNames {
		if v, found := source[names[0]]; found {
			_ = unstructured.SetNestedField(out, v, strings.Split(names[1], ".")...) // out has maps only
		}
	}
	return out
}

// specV2 converts the source of a metric's spec from v1, where a target has no type.
func specV2(name string, source map[string]any) map[string]any {
	out := statusV2(name, source)
	target, _ := out["target"].(map[string]any)
	kind := autoscalingv2.AverageValueMetricType
	switch {
	case target["averageUtilization"] != nil:
		kind = autoscalingv2.UtilizationMetricType
	case name == "object" && target["averageValue"] != nil:
		if target["value"] == "0" {
			delete(target, "value")
		}
	case target["value"] != nil:
		kind = autoscalingv2.ValueMetricType
	}
	_ = unstructured.SetNestedField(out, string(kind), "target", "type")
	return out
}

// convertMetrics converts the specs or statuses of metrics by their sources, which have the same names in both versions.
func convertMetrics[To, From any](from []From, source func(name string, source map[string]any) map[string]any) (to []To) {
	for i := range from {
		tree := TreeOf(&from[i])
		for name, of := range tree {
			if of, ok := of.(map[string]any); ok {
				tree[name] = source(name, of)
			}
		}
		var m To
		FromFields(tree, &m)
		to = append(to, m)
	}
	return to
}

// TreeOf returns a part of an object of a built-in kind as a tree.
func TreeOf(part any) map[string]any {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		panic("apiserver: " + err.Error()) // every built-in kind has such a form
	}
	return tree
}

// FromFields sets the fields of a part of an object of a built-in kind that a tree has.
func FromFields(tree map[string]any, part any) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, part); err != nil {
		panic("apiserver: " + err.Error())
	}
}
