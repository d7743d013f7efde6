package shard

import (
	"slices"
	"time"
)

// planning is what this member would do with the slots.
type planning struct {
	candidates    []candidate   // the members that slots can be placed on, all of which have the target's rules
	target        string        // the rules by which the group should work
	places        [Slots]string // the best candidate for each slot
	settledPlaces [Slots]string // places of when the candidates were settled last
	changed       time.Duration // when the candidates last changed
	unsettled     time.Duration // when they first changed after a quiet time
	unwritten     lasting       // there is an assignment to write
}

// plan returns the assignment that this member should write now, or nil. Every member can write
// it: whether that is safe depends only on what the writer has seen and on the resource version
// of the assignment that it replaces. The order of names decides who does it, so that they rarely
// compete.
func (m *machine) plan(now moment) *assignment {
	var next *assignment
	rank, moving := -1, false
	if m.open(now) {
		m.watchCandidates(now)
		if m.settled(now) {
			m.settledPlaces = m.places
		}
		rank = slices.IndexFunc(m.candidates, func(c candidate) bool { return c.name == m.name })
	}
	if rank >= 0 {
		next, moving = m.planSlots(now)
	}
	waited := m.unwritten.set(now, next != nil)
	if next == nil || waited < m.timing.stagger*time.Duration(rank) || moving && now.Mono-m.assignedAt < m.timing.batch {
		return nil
	}
	next.duration, next.written = m.expiry, m.noted.Since(now.Mono-m.remember())
	if m.view.known && !slices.ContainsFunc(m.owners, func(o owner) bool { return o.name != "" && !m.has(o.name) }) {
		next.duration = m.longest()
	}
	return next
}

// planSlots returns the assignment that differs from that of the view in what this member wants, or nil. moving
// says that more of it may be wanted soon, because slots are being moved.
func (m *machine) planSlots(now moment) (next *assignment, moving bool) {
	if !m.view.known {
		// The caller chooses a line. Epochs are never used twice, so that no member has released a slot in advance.
		next = &assignment{slots: m.view.slots, rules: m.target}
		for i := range next.slots {
			next.slots[i].epoch = max(next.slots[i].epoch, uint64(now.Wall.UnixMilli()))
		}
		return next, false
	}
	// A line begins without owners, and they come a lease duration after this member has seen it: until
	// then, members may work by an assignment of another line. Before that time, the leases of crashed members
	// also look current to a new member.
	place := m.confirmed.Mono-m.lineSince >= m.expiry
	move, states := place && m.settled(now), m.states()
	var free slotSet
	for i := range free {
		// A member that leaves releases its slots without being asked.
		owner := &states[m.ownerOf[i]]
		free[i] = owner.ended || owner.releases(Slot(i), m.view.slots[i].epoch)
	}
	// Members that divide keys in another way work when no other one works on any slot.
	wait := m.target != m.view.rules && slices.Contains(free[:], false)
	for i := range m.view.slots {
		p, owner := &m.view.slots[i], &states[m.ownerOf[i]]
		if free[i] && wait {
			continue
		}
		planned := m.planSlot(Slot(i), p, free[i], place && (move || !owner.returned), move)
		moving = moving || planned.next != "" || !free[i] && owner.leaving
		if planned.epoch == p.epoch {
			continue
		}
		if next == nil {
			next = &assignment{slots: m.view.slots, rules: m.view.rules, line: m.view.line}
		}
		next.slots[i] = planned
	}
	if next != nil && !wait {
		next.rules = m.target
	}
	return next, moving
}

// longest returns the longest lease duration of the present members.
func (m *machine) longest() time.Duration {
	longest := m.timing.expiry
	for _, other := range m.view.members {
		longest = max(longest, other.duration)
	}
	return longest
}

// abandoned returns the member whose lease can be deleted, or nothing, if this member is the first in the order of
// names: that has not renewed it for long, and no slot needs it.
func (m *machine) abandoned(now moment) (name string) {
	if !m.open(now) || len(m.candidates) == 0 || m.candidates[0].name != m.name {
		return ""
	}
	for other, s := range m.seen {
		if (name == "" || other < name) && s.version != "" && other != m.name && m.confirmed.Mono-s.at >= max(m.timing.abandon, m.expiry) && !m.named(other) {
			name = other
		}
	}
	return name
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
