package shard

import (
	"slices"
	"time"
)

// plan returns the assignment that this member should write now, if any. Every member can write
// it: whether that is safe depends only on what the writer has seen and on the resource version
// of the assignment that it replaces. The order of names decides who does it, so that they rarely
// compete.
func (m *machine) plan(now moment) (next assignment, ok bool) {
	if m.lapsed(now) != nil {
		m.due = -1
		return next, false
	}
	m.watchCandidates(now)
	rank := slices.IndexFunc(m.candidates, func(c candidate) bool { return c.name == m.name })
	next = m.view.slots
	// Without a known assignment, members may work on slots of an earlier one until they have
	// noticed, or have lapsed.
	known := m.view.known || m.unknown >= 0 && m.confirmed.mono-m.unknown >= m.timing.expiry
	// Before that time, the leases of crashed members look alive to a new member.
	settled := m.settled(now) && known && m.confirmed.mono-m.first >= m.timing.expiry
	for i := range next {
		next[i] = m.planSlot(Slot(i), next[i], settled)
	}
	if !m.view.known {
		// Epochs are never used twice, so that no member has released a slot in advance.
		for i := range next {
			next[i].epoch = max(next[i].epoch, uint64(now.wall.UnixMilli()))
		}
	}
	if rank < 0 || !known || next == m.view.slots {
		m.due = -1
		return next, false
	}
	if m.due < 0 {
		m.due = now.mono
	}
	return next, now.mono-m.due >= m.timing.patience*time.Duration(rank)
}

// planSlot returns the next placement of a slot.
func (m *machine) planSlot(slot Slot, p placement, settled bool) placement {
	free := p.owner.name == "" || m.gone(p.owner) || p.next != "" && m.hasReleased(p.owner, slot, p.epoch)
	want := ""
	if settled {
		want = m.places[slot]
	}
	if want == "" && free && p.next != "" && m.isCandidate(p.next) {
		want = p.next // a move in progress does not wait
	}
	switch {
	case want == "":
		return p
	case free:
		return placement{owner: owner{want, m.view.members[want].life}, epoch: p.epoch + 1}
	case want == p.owner.name && p.next != "": // back to its owner
		return placement{owner: p.owner, epoch: p.epoch + 1}
	case want != p.owner.name && want != p.next:
		return placement{owner: p.owner, next: want, epoch: p.epoch + 1}
	}
	return p
}

// gone reports whether an owner certainly does not work any more: a later life of it has begun,
// or its lease has expired.
func (m *machine) gone(o owner) bool {
	other, ok := m.view.members[o.name]
	if ok && other.life > o.life {
		return true
	}
	return m.expired(o.name)
}

// expired reports whether a lease has not changed for so long that its member has stopped. Only
// the time up to the last confirmed renewal of this member counts, because the view shows
// everything up to that moment and may lack what came later.
func (m *machine) expired(name string) bool {
	since, ok := m.missing[name]
	if _, exists := m.view.members[name]; exists {
		since, ok = m.seen[name].at, true
	}
	return ok && m.confirmed.mono-since >= m.timing.expiry
}

func (m *machine) hasReleased(o owner, slot Slot, epoch uint64) bool {
	other, ok := m.view.members[o.name]
	e, said := other.released[slot]
	return ok && other.life == o.life && said && e == epoch
}

func (m *machine) isCandidate(name string) bool {
	return slices.ContainsFunc(m.candidates, func(c candidate) bool { return c.name == name })
}

// watchCandidates updates the candidates and when they changed.
func (m *machine) watchCandidates(now moment) {
	var all []candidate
	for name, other := range m.view.members {
		if !other.leaving && !m.expired(name) {
			all = append(all, candidate{name, other.weight})
		}
	}
	sortCandidates(all)
	if slices.Equal(all, m.candidates) {
		return
	}
	if m.settled(now) {
		m.unsettled = now.mono
	}
	m.candidates, m.changed = all, now.mono
	for i := range m.places {
		m.places[i] = place(Slot(i), all)
	}
}

// settled reports whether slots may be moved to other members.
func (m *machine) settled(now moment) bool {
	return now.mono-m.changed >= m.timing.settle || now.mono-m.unsettled >= m.timing.settleMax
}
