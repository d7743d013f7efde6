package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
)

// count is a number of a status.
type count struct {
	name  string
	value int64
}

// status validates the numbers in the status of a workload.
func (p *problems) status(obj runtime.Object) {
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
