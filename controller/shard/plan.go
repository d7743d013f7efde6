package shard

import (
	"slices"
	"time"
)

// plan returns the assignment that this member should write now, if any. Every member can write
// it: whether that is safe depends only on what the writer has seen and on the resource version
// of the assignment that it replaces. The order of names decides who does it, so that they rarely
// compete.
func (m *machine) plan(now moment) (next *ruling, ok bool) {
	if !m.open(now) {
		m.due = -1
		return nil, false
	}
	m.watchCandidates(now)
	if m.settled(now) {
		m.settledPlaces = m.places
	}
	rank := slices.IndexFunc(m.candidates, func(c candidate) bool { return c.name == m.name })
	if rank < 0 {
		m.due = -1
		return nil, false
	}
	// A line begins without owners, and they come a lease duration after this member has seen it: until
	// then, members may work by an assignment of another line. Before that time, the leases of crashed members
	// also look current to a new member.
	place := m.view.known && m.confirmed.Mono-m.since >= m.expiry
	move, moving, states := place && m.settled(now), false, m.states()
	var free slotSet
	for i := range free {
		// A member that leaves releases its slots without being asked.
		owner := &states[m.ownerOf[i]]
		free[i] = owner.ended || owner.releases(Slot(i), m.view.slots[i].epoch)
	}
	// Members that divide keys in another way work when no other one works on any slot.
	adopt := m.target != m.view.rules && !slices.Contains(free[:], false)
	if !m.view.known {
		next = &ruling{slots: m.view.slots}
	}
	for i := range m.view.slots {
		p, free := &m.view.slots[i], free[i]
		if !m.view.known || free && m.target != m.view.rules && !adopt {
			continue
		}
		planned := m.planSlot(Slot(i), p, free, place && (move || !states[m.ownerOf[i]].returned), move)
		moving = moving || planned.next != "" || !free && states[m.ownerOf[i]].leaving
		if planned.epoch == p.epoch {
			continue
		}
		if next == nil {
			next = &ruling{slots: m.view.slots}
		}
		next.slots[i] = planned
	}
	if next == nil {
		m.due = -1
		return nil, false
	}
	next.rules, next.line = m.view.rules, m.view.line
	if !m.view.known || adopt {
		next.rules = m.target
	}
	if !m.view.known {
		next.line = "" // the caller chooses one
		// Epochs are never used twice, so that no member has released a slot in advance.
		for i := range next.slots {
			next.slots[i].epoch = max(next.slots[i].epoch, uint64(now.Wall.UnixMilli()))
		}
	}
	if m.due < 0 {
		m.due = now.Mono
	}
	next.duration, next.written = m.expiry, m.noted.Since(now.Mono-m.remember())
	if m.view.known && len(m.missing) == 0 {
		next.duration = m.longest()
	}
	return next, now.Mono-m.due >= m.timing.stagger*time.Duration(rank) && (!moving || now.Mono-m.ruled >= m.timing.batch)
}

// longest returns the longest lease duration of the present members.
func (m *machine) longest() time.Duration {
	longest := m.timing.expiry
	for _, other := range m.view.members {
		longest = max(longest, other.duration)
	}
	return longest
}

// abandoned returns a lease that can be deleted, if this member is the first in the order of names:
// its member has not renewed it for long, and no slot needs it.
func (m *machine) abandoned(now moment) (name string, ok bool) {
	if !m.open(now) || len(m.candidates) == 0 || m.candidates[0].name != m.name {
		return "", false
	}
	for other, s := range m.seen {
		if (name == "" || other < name) && other != m.name && m.confirmed.Mono-s.at >= max(m.timing.abandon, m.expiry) && !m.named(other) {
			name = other
		}
	}
	return name, name != ""
}

// named reports whether the assignment names a member.
func (m *machine) named(name string) bool {
	return slices.ContainsFunc(m.view.slots[:], func(p placement) bool { return p.owner.name == name || p.next == name })
}

// planSlot returns the next placement of a slot, which is free if its owner does not work on it. place
// and move say whether slots that are free or not may be given to the members that they belong
// to. Every change of a placement has a higher epoch.
func (m *machine) planSlot(slot Slot, p *placement, free, place, move bool) placement {
	want := ""
	if move || free && place {
		want = m.places[slot]
	}
	if want == "" && free && p.next != "" && m.isCandidate(p.next) && !m.view.members[p.next].blocked[slot] {
		want = p.next // a move in progress does not wait
	}
	switch {
	case want == "":
	case free:
		return placement{owner: owner{want, m.view.members[want].term}, epoch: p.epoch + 1}
	case want == p.owner.name && p.next != "": // back to its owner
		return placement{owner: p.owner, epoch: p.epoch + 1}
	case want != p.owner.name && want != p.next && (!m.ranges || m.view.members[want].cached[slot]):
		// With ranges the owner works until the caches of the next one have the slot's objects.
		return placement{owner: p.owner, next: want, epoch: p.epoch + 1}
	}
	return *p
}

// ownerState is what this member knows of an owner.
type ownerState struct {
	owner
	// ended: its fence is certainly closed. A later term of it has begun, or its lease has
	// expired, or there is no owner.
	ended bool
	// returned: it has ended because a later term has begun, whose member may be about to be ready.
	// Its slots wait until the members are settled, so that they stay where they were.
	returned bool
	leaving  bool
	released released // in this term
}

// states returns the state of each of the owners.
func (m *machine) states() []ownerState {
	states := make([]ownerState, len(m.owners))
	for i, o := range m.owners {
		other, ok := m.view.members[o.name]
		expired, later := m.expired(o.name), ok && other.term > o.term
		states[i] = ownerState{owner: o, ended: o.name == "" || later || expired, returned: later && !expired && !other.leaving, leaving: other.leaving}
		if ok && other.term == o.term && len(other.released) > 0 {
			states[i].released = other.released
		}
	}
	return states
}

// releases reports whether the owner has released a slot in an epoch.
func (s *ownerState) releases(slot Slot, epoch uint64) bool {
	if s.released == nil {
		return false
	}
	e, ok := s.released[slot]
	return ok && e == epoch
}

// expired reports whether a lease has not changed for so long that its member has stopped. Only
// the time up to the last confirmed renewal of this member counts, because the view shows
// everything up to that moment and may lack what came later.
func (m *machine) expired(name string) bool {
	since, ok := m.missing[name]
	if _, exists := m.view.members[name]; exists {
		since, ok = m.seen[name].at, true
	}
	return ok && m.confirmed.Mono-since >= m.expiry
}

func (m *machine) isCandidate(name string) bool {
	return slices.ContainsFunc(m.candidates, func(c candidate) bool { return c.name == name })
}

// watchCandidates updates the candidates and when they changed.
func (m *machine) watchCandidates(now moment) {
	var all []candidate
	for name, other := range m.view.members {
		if other.ready && !other.leaving && !m.expired(name) {
			all = append(all, candidate{name, other.rules, other.weight, other.blocked})
		}
	}
	sortCandidates(all)
	target := m.view.rules
	if len(all) > 0 && !slices.ContainsFunc(all, func(c candidate) bool { return c.rules == target }) {
		target = all[0].rules
	}
	all, m.target = slices.DeleteFunc(all, func(c candidate) bool { return c.rules != target }), target
	if slices.Equal(all, m.candidates) {
		return
	}
	if m.settled(now) {
		m.unsettled = now.Mono
	}
	m.candidates, m.changed = all, now.Mono
	for i := range m.places {
		m.places[i] = place(Slot(i), all)
	}
}

// settled reports whether slots may be moved to other members.
func (m *machine) settled(now moment) bool {
	return now.Mono-m.changed >= m.timing.settle || now.Mono-m.unsettled >= m.timing.settleMax
}
