package shard

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How the group is stored. All its leases have the label, so one watch shows all of them at one
// resource version.
const (
	groupLabel       = "tarn.dev/shard-group"
	slotsAnnotation  = "tarn.dev/shard-slots"    // of the group's lease: the assignment
	weightAnnotation = "tarn.dev/shard-weight"   // of a member's lease
	freeAnnotation   = "tarn.dev/shard-released" // of a member's lease: the slots it has released
	leaveAnnotation  = "tarn.dev/shard-leaving"  // of a member's lease: "true" while it leaves
)

// readMember reads a member's lease. Values that a person has edited to something unreadable count
// as absent: the member's next renewal replaces them.
func readMember(l *coordinationv1.Lease) member {
	m := member{version: l.ResourceVersion, process: value(l.Spec.HolderIdentity), life: int64(value(l.Spec.LeaseTransitions))}
	m.weight, _ = strconv.Atoi(l.Annotations[weightAnnotation])
	m.weight = min(max(m.weight, 1), maxWeight)
	m.leaving = l.Annotations[leaveAnnotation] == "true"
	m.released, _ = parseReleased(l.Annotations[freeAnnotation])
	return m
}

// write writes a member's state to a lease and leaves its other fields unchanged.
func (m member) write(l *coordinationv1.Lease, now time.Time, duration time.Duration) {
	life, seconds := int32(m.life), int32(duration/time.Second)
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.LeaseDurationSeconds = &m.process, &life, &seconds
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[weightAnnotation] = strconv.Itoa(m.weight)
	set(l.Annotations, freeAnnotation, m.released.String())
	leaving := ""
	if m.leaving {
		leaving = "true"
	}
	set(l.Annotations, leaveAnnotation, leaving)
}

// set sets or, if the value is empty, removes an entry.
func set(m map[string]string, key, value string) {
	if value == "" {
		delete(m, key)
	} else {
		m[key] = value
	}
}

func value[V any](p *V) (v V) {
	if p != nil {
		v = *p
	}
	return v
}
