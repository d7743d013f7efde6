package shard

import (
	"slices"
	"time"
)

// view is one state of the group's leases: all of them at one resource version.
type view struct {
	members     map[string]member
	version     string // of the assignment; empty if there is none
	*assignment        // empty if it is not known
	// known is false if there is no assignment, or none that can be read. Members may still work
	// on slots that an earlier one gave them.
	known bool
	// uid is that of the lease with the assignment. Together with the line it says whether two assignments are of
	// one line: each was written in place of the one before.
	uid string
}

// none is the assignment of a view without a known one.
var none = &assignment{}

// continues reports whether the assignment of a view is of the same line as that of an earlier one.
func (v *view) continues(earlier view) bool {
	return v.known == earlier.known && v.uid == earlier.uid && v.line == earlier.line
}

// observed is what a member has seen of the group, and when, by its own monotonic clock.
type observed struct {
	view view
	// owners are the different owners in the view, and ownerOf which of them each slot has. All
	// slots are looked at often, so names are compared once.
	owners  []owner
	ownerOf [Slots]int
	// seen is when each lease was first seen as it is in the view, or that an owner has none.
	seen map[string]sighting
	// expiry is the longest lease of all members, which all wait for, and expirySeen when it was last seen: that
	// of a member whose lease was deleted also counts.
	expiry, expirySeen time.Duration
	assignedAt         time.Duration // when the assignment was seen first
	lineSince          time.Duration // when its line was seen first, or that it is missing
	noted              history       // what the leases have as written
}

type sighting struct {
	version string // of the lease; empty: there is none
	at      time.Duration
}

func newObserved(expiry time.Duration) observed {
	return observed{view: view{assignment: none}, owners: []owner{{}}, seen: map[string]sighting{}, expiry: expiry, noted: history{}}
}

// observe takes over a new view.
func (m *machine) observe(now moment, v view) {
	was := m.view
	if m.view = v; v.assignment != was.assignment {
		m.owners = nil
		for i := range v.slots {
			o := v.slots[i].owner
			if m.ownerOf[i] = slices.Index(m.owners, o); m.ownerOf[i] < 0 {
				m.ownerOf[i] = len(m.owners)
				m.owners = append(m.owners, o)
			}
		}
	}
	if !v.continues(was) {
		m.lineSince = now.Mono
	}
	if v.version != was.version {
		m.assignedAt = now.Mono
		m.note(now, v.written)
	}
	if mine := v.members[m.name]; mine.process == m.process && mine.term > m.term {
		m.enter(now, lapsed) // a person wrote it: others count this term as ended
		m.term = mine.term
	}
	m.observeLeases(now)
	m.confirm(now)
}

// observeLeases notes when the leases changed, and what they say for all.
func (m *machine) observeLeases(now moment) {
	see := func(name, version string) (changed bool) {
		if s, ok := m.seen[name]; ok && s.version == version {
			return false
		}
		m.seen[name] = sighting{version, now.Mono}
		return true
	}
	expiry := max(m.timing.expiry, m.view.duration)
	for name, other := range m.view.members {
		expiry = max(expiry, other.duration)
		if see(name, other.version) {
			m.note(now, other.written)
		}
	}
	if expiry >= m.expiry || now.Mono-m.expirySeen >= m.expiry {
		m.expiry, m.expirySeen = expiry, now.Mono
	}
	owns := map[string]bool{}
	for _, o := range m.owners {
		if owns[o.name] = true; o.name != "" && !m.has(o.name) {
			see(o.name, "")
		}
	}
	for name := range m.seen {
		if !m.has(name) && !owns[name] {
			delete(m.seen, name)
		}
	}
}

// has reports whether the view has the lease of a member.
func (o *observed) has(name string) bool {
	_, ok := o.view.members[name]
	return ok
}

func (o *observed) note(now moment, written versions) {
	for p, version := range written {
		o.noted.Add(p, version, now.Mono)
	}
}

// skip makes the time from one moment to another not count as one in which leases have not changed.
func (o *observed) skip(from, to time.Duration) {
	for name, s := range o.seen {
		o.seen[name] = sighting{s.version, max(s.at, to-max(0, from-s.at))}
	}
}

// expired reports whether a lease has not changed for so long that its member has stopped. Only
// the time up to the last confirmed renewal of this member counts, because the view shows
// everything up to that moment and may lack what came later.
func (m *machine) expired(name string) bool {
	s, ok := m.seen[name]
	return ok && m.confirmed.Mono-s.at >= m.expiry
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
		if ok && other.term == o.term {
			states[i].released = other.released
		}
	}
	return states
}

// releases reports whether the owner has released a slot in an epoch.
func (s *ownerState) releases(slot Slot, epoch uint64) bool {
	e, ok := s.released[slot]
	return ok && e == epoch
}

// idle returns how many slots no member works on, as far as this member sees: an owner that has to release a
// slot begins nothing on it, however long its running reconciles take.
func (m *machine) idle(now moment) (slots int) {
	states := m.states()
	for i, at := range m.ownerOf {
		s := &states[at]
		other, present := m.view.members[s.name]
		switch {
		case !present, m.ranges && !other.cached[i],
			s.ended, other.leaving, other.blocked[i], m.view.slots[i].next != "", s.name == m.name && m.slots[i].ends(),
			s.releases(Slot(i), m.view.slots[i].epoch), now.Mono-m.seen[s.name].at >= timingOf(other.duration).lapse:
			slots++
		}
	}
	return slots
}
