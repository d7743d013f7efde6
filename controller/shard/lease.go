package shard

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/internal/lease"
)

// How the group is stored. All its leases have the label, so one watch shows all of them at one
// resource version.
const (
	groupLabel        = "tarn.dev/shard-group"
	slotsAnnotation   = "tarn.dev/shard-slots"    // of the group's lease: the assignment
	writtenAnnotation = "tarn.dev/shard-written"  // of both: versions that a new owner must have
	weightAnnotation  = "tarn.dev/shard-weight"   // of a member's lease
	readyAnnotation   = "tarn.dev/shard-ready"    // of a member's lease: "true" if it can work
	freeAnnotation    = "tarn.dev/shard-released" // of a member's lease: the slots it has released
	cachedAnnotation  = "tarn.dev/shard-cached"   // of a member's lease with Ranges: the slots that its caches have
	blockAnnotation   = "tarn.dev/shard-blocked"  // of a member's lease: the slots it cannot get
	rulesAnnotation   = "tarn.dev/shard-rules"    // of both: how keys are divided
	lineAnnotation    = "tarn.dev/shard-line"     // of the group's lease: see assignment
	leaveAnnotation   = "tarn.dev/shard-leaving"  // of a member's lease: "true" while it leaves
)

// member is the lease of a member.
type member struct {
	version  string // its resource version, which changes with each renewal
	process  string // distinguishes processes that have the same name
	term     int64
	weight   int
	duration time.Duration // its LeaseDuration
	ready    bool          // it can work: its watches and caches are current
	leaving  bool
	released released
	cached   slotSet  // with ranges: the slots whose objects its caches have
	blocked  slotSet  // the slots that it cannot get, because work does not end
	written  versions // what it has written lately
	rules    string   // how it divides keys: see assignment
}

// readMember reads a member's lease. Values that a person has edited to something unreadable count
// as absent: the member's next renewal replaces them.
func readMember(l *coordinationv1.Lease) member {
	m := member{version: l.ResourceVersion, process: lease.Value(l.Spec.HolderIdentity), term: int64(lease.Value(l.Spec.LeaseTransitions))}
	m.duration = readDuration(l)
	m.weight, _ = strconv.Atoi(l.Annotations[weightAnnotation])
	m.weight = min(max(m.weight, 1), maxWeight)
	m.ready = l.Annotations[readyAnnotation] == "true"
	m.rules = l.Annotations[rulesAnnotation]
	m.leaving = l.Annotations[leaveAnnotation] == "true"
	m.released = parseReleased(l.Annotations[freeAnnotation])
	m.cached = parseSlots(l.Annotations[cachedAnnotation])
	m.blocked = parseSlots(l.Annotations[blockAnnotation])
	m.written = handover.Parse(l.Annotations[writtenAnnotation])
	return m
}

// readDuration reads the duration of a lease. No member has one that is longer than the limit, and all
// would wait for it.
func readDuration(l *coordinationv1.Lease) time.Duration {
	return min(time.Duration(lease.Value(l.Spec.LeaseDurationSeconds))*time.Second, maxLeaseDuration)
}

// write writes a member's state to a lease of a group and leaves its other fields unchanged.
func (m member) write(l *coordinationv1.Lease, group string, now time.Time) {
	term, seconds := int32(m.term), int32(m.duration/time.Second)
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.LeaseDurationSeconds = &m.process, &term, &seconds
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[groupLabel] = group
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[weightAnnotation] = strconv.Itoa(m.weight)
	set(l.Annotations, rulesAnnotation, m.rules)
	set(l.Annotations, freeAnnotation, m.released.String())
	set(l.Annotations, writtenAnnotation, m.written.String())
	set(l.Annotations, cachedAnnotation, m.cached.String())
	set(l.Annotations, blockAnnotation, m.blocked.String())
	set(l.Annotations, readyAnnotation, truth(m.ready))
	set(l.Annotations, leaveAnnotation, truth(m.leaving))
}

func truth(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// readAssignment reads the group's lease.
func readAssignment(l *coordinationv1.Lease) (a assignment, err error) {
	a.duration = readDuration(l)
	a.written = handover.Parse(l.Annotations[writtenAnnotation])
	a.rules, a.line = l.Annotations[rulesAnnotation], l.Annotations[lineAnnotation]
	a.slots, err = parsePlacements(l.Annotations[slotsAnnotation])
	if err != nil {
		a.slots = placements{}
	}
	return a, err
}

// write writes an assignment to the lease of a group.
func (a assignment) write(l *coordinationv1.Lease, group string) {
	seconds := int32(a.duration / time.Second)
	l.Spec.LeaseDurationSeconds = &seconds
	l.Labels = map[string]string{groupLabel: group}
	l.Annotations = map[string]string{slotsAnnotation: a.slots.String()}
	set(l.Annotations, rulesAnnotation, a.rules)
	set(l.Annotations, lineAnnotation, a.line)
	set(l.Annotations, writtenAnnotation, a.written.String())
}

// set sets or, if the value is empty, removes an entry.
func set(m map[string]string, key, value string) {
	if value == "" {
		delete(m, key)
	} else {
		m[key] = value
	}
}
