package shard

import (
	"slices"
	"time"
)

// renewals are the requests for this member's lease.
type renewals struct {
	unseen    []renewal // that the server has stored and the view does not show yet, oldest first
	confirmed moment    // when the last one that the view shows was sent
	due       time.Duration
	pending   int           // how many have no answer
	sent      time.Duration // when the last one was sent
	says      member        // what that one says; the zero member if there is none
	known     bool          // the version that the next one replaces is known
}

type renewal struct {
	version string
	sent    moment
}

// lease returns what this member's lease must say.
func (m *machine) lease(now moment) member {
	says := member{
		process: m.process, term: m.term, weight: m.weight, duration: m.timing.expiry, ready: m.ready(), leaving: m.leaving,
		released: released{}, cached: m.hasObjects(), rules: m.rules, written: m.written.Since(now.Mono - m.remember()),
	}
	for i := range m.slots {
		says.blocked[i] = m.blocked(now, i)
		if w := &m.slots[i]; w.state == freed {
			says.released[Slot(i)] = w.epoch
		}
	}
	return says
}

// hasObjects returns the slots whose objects the caches have, if the slots are ranges. A cache that is added
// lists those that this member works on, which does not end the work.
func (m *machine) hasObjects() slotSet {
	slots := m.cached
	for i := range m.slots {
		slots[i] = slots[i] || m.ranges && m.slots[i].runs()
	}
	return slots
}

// remember returns for how long written versions are kept. The caches of a member that gets slots
// are live, so they have what was written before that. With ranges they may have listed a slot only now,
// at the version of the last event of the others.
func (m *machine) remember() time.Duration {
	if m.ranges {
		return 4*m.expiry + m.timing.unseen
	}
	return 4 * m.expiry
}

// hasNews reports whether the lease has to say something else than the last renewal. Slots that were released
// or are no longer blocked wait for others that are being drained, so that a slow hand-over does not take a request for each.
func (m *machine) hasNews(now moment) bool {
	said := &m.says
	if m.term != said.term || m.leaving != said.leaving || m.ready() != said.ready || m.hasObjects() != said.cached {
		return true
	}
	unsaid, drains := false, false
	for i := range m.slots {
		w, p := &m.slots[i], &m.view.slots[i]
		blocked := m.blocked(now, i)
		if blocked && !said.blocked[i] {
			return true
		}
		unsaid = unsaid || blocked != said.blocked[i] || w.state == freed && said.released[Slot(i)] != w.epoch
		drains = drains || w.state == draining && p.owner == (owner{m.name, m.term})
	}
	return unsaid && (!drains || now.Mono-m.sent >= m.timing.batch)
}

// renewalDue reports whether a renewal must be sent now. A second one is sent if the answer to the first takes
// long: that was lost, or the server is slow. Both replace the same version of the lease, so the server stores one
// of them. While this member's term has lapsed none is: others take the slots while its work ends.
func (m *machine) renewalDue(now moment) bool {
	switch {
	case m.phase == lapsed:
		return false
	case m.pending == 0:
		return now.Mono >= m.due || m.hasNews(now)
	}
	return m.pending == 1 && m.known && now.Mono-m.sent >= m.timing.request
}

// renew returns what to write to this member's lease. The caller calls answered after that.
func (m *machine) renew(now moment) *member {
	if m.pending == 0 {
		m.due = now.Mono + m.timing.renew
	}
	m.pending++
	m.sent, m.says = now.Mono, m.lease(now)
	says := m.says
	return &says
}

// answered records that a renewal has ended, and whether the version of the lease is known. It is not if the
// renewal failed and none was stored since.
func (m *machine) answered(now moment, known bool) {
	m.pending--
	if m.known = known; !known {
		m.due = min(m.due, now.Mono+m.timing.renew/5)
	}
}

// stored records that the server has stored a renewal, and when it was sent. However long that took, it was
// stored before now, and the others wait for it at least until this member has lapsed without it. An answer that
// comes later does not count.
func (m *machine) stored(now, sent moment, version string) {
	if m.phase == active && !m.open(now) {
		return
	}
	// Not from when a second one was sent, which the server does not store: the time until this one lapses has begun.
	m.due = sent.Mono + m.timing.renew
	// The view of a member whose watch is stuck shows none of them.
	m.unseen = slices.DeleteFunc(m.unseen, func(r renewal) bool { return now.Since(r.sent) >= m.timing.lapse })
	m.unseen = append(m.unseen, renewal{version, sent})
	m.confirm(now)
}

// confirm counts the renewal that the view shows. The view then also shows every assignment that
// was written before it.
func (m *machine) confirm(now moment) {
	mine := m.view.members[m.name]
	i := slices.IndexFunc(m.unseen, func(r renewal) bool { return r.version == mine.version })
	if i < 0 || mine.term != m.term || m.phase == lapsed {
		return
	}
	sent := m.unseen[i].sent
	m.unseen = slices.Delete(m.unseen, 0, i+1)
	if m.phase == active && sent.Since(m.confirmed) >= m.timing.lapse {
		m.enter(now, lapsed) // it was sent too late to continue this term
		return
	}
	if m.phase == joining {
		// The API server may have been away from all members since the earlier term, and those that come back
		// later than this one have not expired.
		m.skip(m.confirmed.Mono, sent.Mono)
	}
	m.enter(now, active)
	m.confirmed = sent
}
