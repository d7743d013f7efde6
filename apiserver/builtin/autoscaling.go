package builtin

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func defaultAutoscaler(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
	setDefault(&s.MinReplicas, 1)
	if len(s.Metrics) == 0 {
		utilization := int32(80)
		s.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
			},
		}}
	}
	if s.Behavior == nil {
		return
	}
	setDefault(&s.Behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
	setDefault(&s.Behavior.ScaleUp.StabilizationWindowSeconds, 0)
	setDefault(&s.Behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	defaultScaling(s.Behavior.ScaleUp, pods, percent)
	defaultScaling(s.Behavior.ScaleDown, percent)
}

func defaultScaling(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	setDefault(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}

func (p *problems) autoscaler(h, old *autoscalingv2.HorizontalPodAutoscaler) {
	s, at := &h.Spec, spec
	if n := s.MinReplicas; n != nil && *n < 1 {
		p.invalid(at.Child("minReplicas"), *n, "must be greater than or equal to 1")
	}
	switch n := s.MaxReplicas; {
	case n == 0:
		p.required(at.Child("maxReplicas"), "must be set and greater than 0")
	case n < 0:
		p.invalid(at.Child("maxReplicas"), n, "must be greater than or equal to 1")
	}
	if s.MaxReplicas < valueOf(s.MinReplicas) {
		p.invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	ref := s.ScaleTargetRef
	p.kindAndName(at.Child("scaleTargetRef"), ref.Kind, ref.Name)
	if old == nil || ref.APIVersion != old.Spec.ScaleTargetRef.APIVersion || ref.Kind != old.Spec.ScaleTargetRef.Kind {
		p.apiVersion(ref.APIVersion, ref.Kind != "ReplicationController", at.Child("scaleTargetRef", "apiVersion"))
	}
	for i := range s.Metrics {
		p.metric(&s.Metrics[i], at.Child("metrics").Index(i))
	}
	if s.Behavior != nil {
		p.scaling(s.Behavior.ScaleUp, at.Child("behavior", "scaleUp"))
		p.scaling(s.Behavior.ScaleDown, at.Child("behavior", "scaleDown"))
	}
}

// apiVersion validates the API version of a reference, which must have a group if it is grouped.
func (p *problems) apiVersion(version string, grouped bool, at *field.Path) {
	if gv, err := schema.ParseGroupVersion(version); err != nil {
		p.invalid(at, version, err.Error())
	} else if gv.Group == "" && grouped {
		p.invalid(at, version, "apiVersion must specify API group")
	}
}

func (p *problems) scaling(rules *autoscalingv2.HPAScalingRules, at *field.Path) {
	if rules == nil {
		return
	}
	if n := valueOf(rules.StabilizationWindowSeconds); n < 0 {
		p.invalid(at.Child("stabilizationWindowSeconds"), n, "must be greater than or equal to zero")
	} else if n > 3600 {
		p.invalid(at.Child("stabilizationWindowSeconds"), n, "must be less than or equal to 3600")
	}
	if rules.SelectPolicy != nil {
		emptyOr(p, at.Child("selectPolicy"), *rules.SelectPolicy, autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	if len(rules.Policies) == 0 {
		p.required(at.Child("policies"), "must specify at least one Policy")
	}
	for i, policy := range rules.Policies {
		at := at.Child("policies").Index(i)
		if types := []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}; !slices.Contains(types, policy.Type) {
			p.add(field.NotSupported(at.Child("type"), policy.Type, types))
		}
		if policy.Value <= 0 {
			p.invalid(at.Child("value"), policy.Value, "must be greater than zero")
		}
		if policy.PeriodSeconds <= 0 {
			p.invalid(at.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero")
		} else if policy.PeriodSeconds > 1800 {
			p.invalid(at.Child("periodSeconds"), policy.PeriodSeconds, "must be less than or equal to 1800")
		}
	}
}

// metricSource is the source of a metric in the form that all kinds of sources share.
type metricSource struct {
	kind       autoscalingv2.MetricSourceType
	field      string
	metric     *autoscalingv2.MetricIdentifier
	target     *autoscalingv2.MetricTarget
	name       string // of the resource
	byResource bool
}

func metricSources(m *autoscalingv2.MetricSpec) (sources []metricSource) {
	if s := m.Object; s != nil {
		sources = append(sources, metricSource{kind: autoscalingv2.ObjectMetricSourceType, field: "object", metric: &s.Metric, target: &s.Target})
	}
	if s := m.External; s != nil {
		sources = append(sources, metricSource{kind: autoscalingv2.ExternalMetricSourceType, field: "external", metric: &s.Metric, target: &s.Target})
	}
	if s := m.Pods; s != nil {
		sources = append(sources, metricSource{kind: autoscalingv2.PodsMetricSourceType, field: "pods", metric: &s.Metric, target: &s.Target})
	}
	if s := m.Resource; s != nil {
		sources = append(sources, metricSource{kind: autoscalingv2.ResourceMetricSourceType, field: "resource", name: string(s.Name), target: &s.Target, byResource: true})
	}
	if s := m.ContainerResource; s != nil {
		sources = append(sources, metricSource{kind: autoscalingv2.ContainerResourceMetricSourceType, field: "containerResource", name: string(s.Name), target: &s.Target, byResource: true})
	}
	return sources
}

// metricFields are the fields of the sources of metrics.
var metricFields = map[autoscalingv2.MetricSourceType]string{
	autoscalingv2.ContainerResourceMetricSourceType: "containerResource", autoscalingv2.ExternalMetricSourceType: "external",
	autoscalingv2.ObjectMetricSourceType: "object", autoscalingv2.PodsMetricSourceType: "pods", autoscalingv2.ResourceMetricSourceType: "resource",
}

func (p *problems) metric(m *autoscalingv2.MetricSpec, at *field.Path) {
	if m.Type == "" {
		p.required(at.Child("type"), "must specify a metric source type")
	}
	want, known := metricFields[m.Type]
	if !known {
		p.add(field.NotSupported(at.Child("type"), m.Type, sortedKeys(metricFields)))
	}
	sources := metricSources(m)
	if len(sources) > 0 {
		p.metricSource(m, sources[0], at.Child(sources[0].field))
	}
	if !known {
		p.add(field.NotSupported(at.Child("type"), m.Type, sortedKeys(metricFields)))
	} else if !slices.ContainsFunc(sources, func(s metricSource) bool { return s.kind == m.Type }) {
		p.required(at.Child(want), "must populate information for the given metric source")
	}
	for _, s := range sources {
		if len(sources) > 1 && s.field != want {
			p.forbidden(at.Child(s.field), "must populate the given metric source only")
		}
	}
}

func (p *problems) metricSource(m *autoscalingv2.MetricSpec, s metricSource, at *field.Path) {
	if s.kind == autoscalingv2.ObjectMetricSourceType {
		p.kindAndName(at.Child("describedObject"), m.Object.DescribedObject.Kind, m.Object.DescribedObject.Name)
		p.apiVersion(m.Object.DescribedObject.APIVersion, false, at.Child("describedObject", "apiVersion"))
	}
	switch {
	case s.byResource && s.name == "":
		p.required(at.Child("name"), "must specify a resource name")
	case s.metric != nil && s.metric.Name == "":
		p.required(at.Child("metric", "name"), "must specify a metric name")
	case s.metric != nil:
		p.invalid(at.Child("metric", "name"), s.metric.Name, content.IsPathSegmentName(s.metric.Name)...)
	}
	if s.kind == autoscalingv2.ContainerResourceMetricSourceType {
		if name := m.ContainerResource.Container; name == "" {
			p.required(at.Child("container"), "must specify a container")
		} else {
			p.label(at.Child("container"), name)
		}
	}
	at = at.Child("target")
	p.metricTarget(s.target, at)
	t := s.target
	switch {
	case s.byResource && t.AverageUtilization == nil && t.AverageValue == nil:
		p.required(at.Child("averageUtilization"), "must set either a target raw value or a target utilization")
	case s.byResource && t.AverageUtilization != nil && t.AverageValue != nil:
		p.forbidden(at.Child("averageValue"), "may not set both a target raw value and a target utilization")
	case s.kind == autoscalingv2.PodsMetricSourceType && t.AverageValue == nil:
		p.required(at.Child("averageValue"), "must specify a positive target averageValue")
	case s.kind == autoscalingv2.ObjectMetricSourceType && t.Value == nil && t.AverageValue == nil:
		p.required(at.Child("averageValue"), "must set either a target value or averageValue")
	case s.kind == autoscalingv2.ExternalMetricSourceType && t.Value == nil && t.AverageValue == nil:
		p.required(at.Child("averageValue"), "must set either a target value for metric or a per-pod target")
	case s.kind == autoscalingv2.ExternalMetricSourceType && t.Value != nil && t.AverageValue != nil:
		p.forbidden(at.Child("value"), "may not set both a target value for metric and a per-pod target")
	}
}

func (p *problems) metricTarget(t *autoscalingv2.MetricTarget, at *field.Path) {
	if t.Type == "" {
		p.required(at.Child("type"), "must specify a metric target type")
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		p.invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	}
	for _, f := range []struct {
		name  string
		value *resource.Quantity
	}{{"value", t.Value}, {"averageValue", t.AverageValue}} {
		if f.value != nil && f.value.Sign() != 1 {
			p.invalid(at.Child(f.name), f.value, "must be positive")
		}
	}
	if n := t.AverageUtilization; n != nil && *n < 1 {
		p.invalid(at.Child("averageUtilization"), *n, "must be greater than 0")
	}
}
