package shard

import (
	"slices"
	"time"
)

// renewalDue reports whether a renewal must be sent now; changed says that the lease has to say something new. A
// second one is sent if the answer to the first takes long: that was lost, or the server is slow. Both replace the
// same version of the lease, so the server stores one of them.
func (m *machine) renewalDue(now moment, changed bool) bool {
	switch {
	case m.phase == lapsed: // others take the slots while its work ends
		m.nextRenew = min(m.nextRenew, now.Mono)
		return false
	case m.sending == 0:
		return changed || now.Mono >= m.nextRenew
	}
	return m.sending == 1 && now.Mono-m.lastSent >= m.timing.request
}

// send returns what to write to this member's lease. The caller calls answered after that.
func (m *machine) send(now moment) member {
	if m.sending == 0 {
		m.nextRenew = now.Mono + m.timing.renew
	}
	m.sending++
	m.lastSent = now.Mono
	return m.lease(now)
}

// answered records that a renewal has ended; failed says that none was stored since.
func (m *machine) answered(now moment, failed bool) {
	if m.sending--; failed {
		m.nextRenew = min(m.nextRenew, now.Mono+m.timing.renew/5)
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
	m.nextRenew = sent.Mono + m.timing.renew
	// The view of a member whose watch is stuck shows none of them.
	m.sent = slices.DeleteFunc(m.sent, func(r renewal) bool { return now.Since(r.at) >= m.timing.lapse })
	m.sent = append(m.sent, renewal{version, sent})
	m.confirm()
}

// confirm counts the renewal that the view shows. The view then also shows every assignment that
// was written before it.
func (m *machine) confirm() {
	mine := m.view.members[m.name]
	i := slices.IndexFunc(m.sent, func(r renewal) bool { return r.version == mine.version })
	if i < 0 || mine.term != m.term || m.phase == lapsed {
		return
	}
	sent := m.sent[i].at
	m.sent = slices.Delete(m.sent, 0, i+1)
	if m.phase == active && sent.Since(m.confirmed) >= m.timing.lapse {
		m.phase = lapsed // it was sent too late to continue this term
		return
	}
	if m.phase == joining {
		m.skip(sent.Mono)
	}
	m.phase, m.confirmed = active, sent
}

// skip makes the time from the last confirmed renewal of the earlier term to the first one of this
// term not count as one in which leases have not changed. The API server may have been away from
// all members, and those that come back later than this one have not expired.
func (m *machine) skip(to time.Duration) {
	from := m.confirmed.Mono
	skipped := func(since time.Duration) time.Duration { return max(since, to-max(0, from-since)) }
	for name, s := range m.seen {
		m.seen[name] = sighting{s.version, skipped(s.at)}
	}
	for name, since := range m.missing {
		m.missing[name] = skipped(since)
	}
}
