package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func at(d time.Duration) moment { return moment{Mono: d, Wall: time.Unix(0, 0).Add(d)} }

// The annotations of a lease may have 256 KiB, so versions that all caches have by now are dropped.
func TestWrittenVersionsAreForgotten(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	const many = 3000
	cache := "maps in " + strings.Repeat("some-namespace,", 10)
	for i := range many {
		m.written.Add(part{Cache: cache, Scope: object.Scope(fmt.Sprint("ns", i))}, "7", time.Duration(i))
	}
	written := m.lease(at(time.Second)).written
	if n := len(written.String()); n > handover.MaxWritten || n < handover.MaxWritten/2 || written[part{Cache: cache, Scope: object.Scope(fmt.Sprint("ns", many-1))}] != "7" {
		t.Errorf("%d versions in %d bytes, without the latest", len(written), n)
	}
	m.observe(at(0), view{version: "1", members: map[string]member{"a": {version: "1", written: written}}, assignment: &assignment{written: versions{part{Cache: "old"}: "3"}}, known: true})
	m.observe(at(30*time.Second), view{version: "2", members: map[string]member{"a": {version: "2", written: versions{part{Cache: "maps"}: "9"}}}, assignment: none})
	if got := m.noted.Since(40*time.Second - m.remember()); len(got) < len(written) {
		t.Errorf("%d versions after 40 seconds", len(got))
	}
	if got := m.noted.Since(80*time.Second - m.remember()); len(got) != 1 || got[part{Cache: "maps"}] != "9" {
		t.Errorf("after 80 seconds: %q", got)
	}
	if got := m.lease(at(2 * time.Minute)).written; len(got) != 0 {
		t.Errorf("the lease has %d versions two minutes later", len(got))
	}
}

// A slot may be listed at a version that is so old, so what was written since must not be forgotten.
func TestP03_WrittenVersionsAreKeptForPartsThatAreListedAtAnOldVersion(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	m.ranges = true
	m.written.Add(part{Cache: "maps", Slot: "7"}, "5", 0)
	if got := m.lease(at(reflector.MaxPartAge + 30*time.Second)).written; len(got) != 1 {
		t.Errorf("the lease has %v", got)
	}
	if got := m.lease(at(2 * reflector.MaxPartAge)).written; len(got) != 0 {
		t.Errorf("later the lease has %v", got)
	}
}

// A member whose watch is stuck while it joins renews for ever and sees none of its renewals.
func TestRenewalsThatAreNotSeenAreForgotten(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	m.observe(at(0), view{assignment: none})
	for i := range 1000 {
		now := at(time.Duration(i) * 5 * time.Second)
		m.stored(now, now, fmt.Sprint(i))
	}
	if len(m.unseen) > 3 {
		t.Errorf("%d renewals are kept", len(m.unseen))
	}
	m.observe(at(4999*time.Second), view{members: map[string]member{"a": {version: "999", process: "p", term: 1}}, assignment: none})
	if !m.open(at(4999 * time.Second)) {
		t.Error("the last renewal was not confirmed")
	}
}

// A mirror that is added to a running process lists at first, while the process works on its slots.
func TestSlotsAreNotIdleWhileANewCacheLists(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	m.ranges, m.able = true, true
	for i := range m.cached {
		m.cached[i] = true
	}
	renew := func(now moment, version string) {
		mine := m.lease(now)
		mine.version = version
		r := &assignment{}
		for i := range r.slots {
			r.slots[i] = placement{owner: owner{"a", 1}, epoch: 1}
		}
		m.stored(now, now, version)
		m.observe(now, view{members: map[string]member{"a": mine}, version: "1", assignment: r, known: true})
		m.step(now)
	}
	renew(at(0), "2")
	m.cached = slotSet{}
	renew(at(time.Second), "3")
	if m.works() != Slots || m.idle(at(time.Second)) != 0 {
		t.Errorf("it works on %d slots, and %d are idle", m.works(), m.idle(at(time.Second)))
	}
	m.slots = [Slots]slotWork{}
	renew(at(2*time.Second), "4")
	if m.idle(at(2*time.Second)) != Slots {
		t.Errorf("it works on none, and %d are idle", m.idle(at(2*time.Second)))
	}
}

// What is written to a lease is read again.
func TestLeasesKeepWhatRangesNeed(t *testing.T) {
	var has slotSet
	has[0], has[7], has[8], has[255] = true, true, true, true
	m := member{process: "p", term: 1, weight: 1, cached: has, written: versions{
		{Cache: "maps of a shard", Slot: "17"}: "4", {Cache: "maps", Scope: "shop"}: "5", {Cache: "maps", Scope: "shop", Slot: "0"}: "6",
	}}
	l := &coordinationv1.Lease{}
	m.write(l, "web", time.Unix(0, 0))
	if got := l.Annotations[cachedAnnotation]; got != "0,7-8,255" {
		t.Errorf("cached: %s", got)
	}
	read := readMember(l)
	if read.cached != has || fmt.Sprint(read.written) != fmt.Sprint(m.written) {
		t.Errorf("read %v", read)
	}
	for _, text := range []string{"", "one"} {
		r := assignment{rules: text, line: text}
		for i := range r.slots {
			r.slots[i].epoch = 1
		}
		r.write(l, "web")
		if got, err := readAssignment(l); err != nil || got.rules != text || got.line != text || got.slots != r.slots {
			t.Errorf("rules %q: read %q, %v", text, got.rules, err)
		}
	}
}

// A member with a longer lease renews it less often than this member's own lapses.
func TestSlotsOfAMemberWithALongerLeaseAreNotIdle(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	r := &assignment{}
	for i := range r.slots {
		r.slots[i] = placement{owner: owner{"b", 1}, epoch: 1}
	}
	m.observe(at(0), view{members: map[string]member{"b": {version: "1", term: 1, duration: time.Minute}}, version: "1", assignment: r, known: true})
	for after, want := range map[time.Duration]int{20 * time.Second: 0, 39 * time.Second: 0, 40 * time.Second: Slots} {
		if got := m.idle(at(after)); got != want {
			t.Errorf("%v after its renewal %d slots of a lease of a minute are idle; want %d", after, got, want)
		}
	}
}

// All members wait for the longest lease, so one that was edited must not stop the take-over for days.
func TestLeaseDurationsAreLimited(t *testing.T) {
	year := int32(365 * 24 * 3600)
	l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &year}}
	if got := readMember(l).duration; got != time.Hour {
		t.Errorf("a member has %v", got)
	}
	if r, _ := readAssignment(l); r.duration != time.Hour {
		t.Errorf("the assignment has %v", r.duration)
	}
}

func TestTheImbalanceCountsMembersThatCanHaveSlots(t *testing.T) {
	a := MemberStatus{Name: "a", Weight: 1, Slots: Slots, Ready: true}
	for name, c := range map[string]struct {
		other MemberStatus
		want  float64
	}{
		"ready":     {MemberStatus{Weight: 1, Ready: true}, 2},
		"heavy":     {MemberStatus{Weight: 3, Ready: true}, 4},
		"not ready": {MemberStatus{Weight: 1}, 1},
		"leaving":   {MemberStatus{Weight: 1, Ready: true, Leaving: true}, 1},
		"expired":   {MemberStatus{Weight: 1, Ready: true, Expired: true}, 1},
	} {
		if got := (Status{Members: []MemberStatus{a, c.other}}).Imbalance(); got != c.want {
			t.Errorf("next to a member that is %s the imbalance is %v, not %v", name, got, c.want)
		}
	}
}

// A process that was paused may have missed an assignment by which others work.
func TestP01_AnAssignmentMayHaveExistedDuringAPause(t *testing.T) {
	m := newMachine("a", "p", 1, timingOf(15*time.Second))
	m.able = true
	v := func(line string, members map[string]member) view {
		r := &assignment{line: line}
		for i := range r.slots {
			r.slots[i].epoch = 1
		}
		return view{version: line, uid: "same", members: members, assignment: r, known: true}
	}
	renew := func(now time.Duration) (plans bool) {
		version := now.String()
		mine := m.lease(at(now))
		mine.version = version
		m.stored(at(now), at(now), version)
		m.observe(at(now), v("second", map[string]member{"a": mine}))
		return m.step(at(now)).assignment != nil
	}
	m.observe(at(0), v("first", nil))
	wrote := map[time.Duration]bool{}
	for now := 50 * time.Second; now <= 70*time.Second; now += 5 * time.Second {
		wrote[now] = renew(now)
	}
	if wrote[50*time.Second] || wrote[55*time.Second] || wrote[60*time.Second] || !wrote[70*time.Second] {
		t.Errorf("slots are given away: %v", wrote)
	}
}
