package builtin

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// count is a number of a status.
type count struct {
	name  string
	value int64
}

// status validates a status. old is nil for a new object.
func (p *problems) status(obj, old runtime.Object) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s := &o.Status
		p.counts(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas",
			[]count{
				{"observedGeneration", s.ObservedGeneration}, {"replicas", int64(s.Replicas)}, {"updatedReplicas", int64(s.UpdatedReplicas)}, {"readyReplicas", int64(s.ReadyReplicas)},
				{"availableReplicas", int64(s.AvailableReplicas)}, {"unavailableReplicas", int64(s.UnavailableReplicas)},
			}, "updatedReplicas", "readyReplicas", "availableReplicas")
	case *appsv1.ReplicaSet:
		s := &o.Status
		p.counts(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas",
			[]count{
				{"replicas", int64(s.Replicas)}, {"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)}, {"readyReplicas", int64(s.ReadyReplicas)},
				{"availableReplicas", int64(s.AvailableReplicas)}, {"observedGeneration", s.ObservedGeneration},
			}, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
	case *appsv1.StatefulSet:
		s := &o.Status
		p.counts(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than status.readyReplicas",
			[]count{
				{"replicas", int64(s.Replicas)}, {"readyReplicas", int64(s.ReadyReplicas)}, {"currentReplicas", int64(s.CurrentReplicas)},
				{"updatedReplicas", int64(s.UpdatedReplicas)}, {"availableReplicas", int64(s.AvailableReplicas)}, {"observedGeneration", s.ObservedGeneration},
			}, "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
	case *appsv1.DaemonSet:
		s := &o.Status
		p.notNegative([]count{
			{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, {"numberMisscheduled", int64(s.NumberMisscheduled)},
			{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)}, {"numberReady", int64(s.NumberReady)}, {"observedGeneration", s.ObservedGeneration},
			{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)}, {"numberAvailable", int64(s.NumberAvailable)}, {"numberUnavailable", int64(s.NumberUnavailable)},
		})
	case *autoscalingv2.HorizontalPodAutoscaler:
		p.notNegative([]count{{"currentReplicas", int64(o.Status.CurrentReplicas)}, {"desiredReplicas", int64(o.Status.DesiredReplicas)}})
	case *batchv1.Job:
		p.jobStatus(o, cmp.Or(was(o, old), new(batchv1.Job)))
	case *corev1.Service:
		p.serviceStatus(o, was(o, old))
	case *networkingv1.Ingress:
		p.ingressStatus(o, was(o, old))
	}
}

var balancers = status.Child("loadBalancer", "ingress")

func (p *problems) ingressStatus(ingress, old *networkingv1.Ingress) {
	var before []string
	if old != nil {
		for _, in := range old.Status.LoadBalancer.Ingress {
			before = append(before, in.IP)
		}
	}
	for i, in := range ingress.Status.LoadBalancer.Ingress {
		p.balancerIP(balancers.Index(i), in.IP, before)
		p.balancerName(balancers.Index(i), in.Hostname)
	}
}

func (p *problems) serviceStatus(svc, old *corev1.Service) {
	ingress := svc.Status.LoadBalancer.Ingress
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(ingress) > 0 {
		p.forbidden(balancers, "may only be used when `spec.type` is 'LoadBalancer'")
		return
	}
	var before []string
	if old != nil {
		for _, in := range old.Status.LoadBalancer.Ingress {
			before = append(before, in.IP)
		}
	}
	for i, in := range ingress {
		at := balancers.Index(i)
		p.balancerIP(at, in.IP, before)
		mode := at.Child("ipMode")
		switch {
		case in.IPMode == nil && in.IP != "":
			p.required(mode, "must be specified when `ip` is set")
		case in.IPMode != nil && in.IP == "":
			p.forbidden(mode, "may not be specified when `ip` is not set")
		case in.IPMode != nil:
			emptyOr(p, mode, *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
		}
		p.balancerName(at, in.Hostname)
	}
}

// balancerIP validates the address of a load balancer. One that it had before may be ambiguous.
func (p *problems) balancerIP(at *field.Path, ip string, before []string) {
	if ip != "" {
		p.add(utilvalidation.IsValidIPForLegacyField(at.Child("ip"), ip, true, before)...)
	}
}

func (p *problems) balancerName(at *field.Path, name string) {
	if name == "" {
		return
	}
	p.subdomain(at.Child("hostname"), name)
	if netutils.ParseIPSloppy(name) != nil {
		p.invalid(at.Child("hostname"), name, "must be a DNS name, not an IP address")
	}
}

func (p *problems) notNegative(counts []count) {
	for _, c := range counts {
		notNegative(p, status.Child(c.name), &c.value)
	}
}

// counts checks that no number is negative, that those of parts are not greater than that of
// replicas, and that available replicas are ready.
func (p *problems) counts(replicas, ready, available int32, unready string, counts []count, parts ...string) {
	p.notNegative(counts)
	for _, part := range parts {
		for _, c := range counts {
			if c.name == part && c.value > int64(replicas) {
				p.invalid(status.Child(part), c.value, "cannot be greater than status.replicas")
			}
		}
	}
	if available > ready {
		p.invalid(status.Child("availableReplicas"), available, unready)
	}
}
