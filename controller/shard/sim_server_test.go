package shard

import (
	"fmt"
	"maps"
)

// simServer stores the leases of a group. Every write has its own version.
type simServer struct {
	version int
	lines   int // how many assignments were written in place of none
	now     view
	states  []view // what watches deliver, oldest first
}

func (s *simServer) write(change func(version string)) string {
	s.version++
	s.now.members = maps.Clone(s.now.members)
	version := fmt.Sprint(s.version)
	change(version)
	s.states = append(s.states, s.now)
	return version
}

// request sends a request: do runs on the server, and done on the node, which may not get the answer.
func (s *sim) request(n *simNode, do func(), done func(answered bool)) {
	limit := s.now + n.timing.limit
	fail := func() {
		s.after(max(0, limit-s.now), func() { s.whenRunning(n, func() { done(false) }) })
	}
	if n.cutTill > s.now || s.lost() {
		fail()
		return
	}
	s.after(s.delay(), func() {
		do()
		answer := s.delay()
		if s.lost() || n.cutTill > s.now || s.now+answer > limit {
			fail()
			return
		}
		s.after(answer, func() { s.whenRunning(n, func() { done(true) }) })
	})
}

func (s *sim) whenRunning(n *simNode, do func()) {
	if n.dead {
		return
	}
	if n.pausedTill > s.now {
		s.after(n.pausedTill-s.now, func() { s.whenRunning(n, do) })
		return
	}
	do()
}

func (s *sim) renew(n *simNode, lease member) {
	name, sent, base := n.name, n.moment(s.now), n.base
	var version string
	taken := false
	s.request(n, func() {
		old, ok := s.server.now.members[name]
		if base != "" && old.version != base {
			return // a conflict, or it was deleted
		}
		if taken = ok && old.process != lease.process; taken {
			return
		}
		version = s.server.write(func(v string) {
			lease.version = v
			s.server.now.members[name] = lease
		})
	}, func(answered bool) {
		if !answered {
			version = ""
		}
		if n.base == base || n.base == "" {
			n.base = version
		}
		now := n.moment(s.now)
		switch {
		case answered && taken:
			n.rename(now, s.newName())
		case version != "" && (!s.plant.impatient || now.Since(sent) <= timingOf(n.timing.expiry).request):
			n.stored(now, sent, version)
		}
		n.answered(now, n.base != "")
	})
}

func (s *sim) write(n *simNode, next *assignment) {
	n.planning = true
	v := n.view
	s.request(n, func() {
		if s.server.now.version != v.version {
			return
		}
		for i := range s.needs {
			slot := s.slot(v.rules, i)
			before, after := v.slots[slot], next.slots[s.slot(next.rules, i)]
			if before.owner == after.owner {
				continue
			}
			old, ok := v.members[before.owner.name]
			switch ended := ok && (old.term > before.owner.term || old.released[slot] == before.epoch); {
			case !ended:
				s.needs[i] = 0
			case s.writer[i] == before.owner:
				s.needs[i] = s.wrote[i]
			} // otherwise the old owner has written nothing, and what it needed itself is needed
		}
		if next.line == "" {
			s.server.lines++
			next.line = fmt.Sprint("line ", s.server.lines)
			s.deleteAgain()
		}
		s.server.write(func(v string) { s.server.now.assignment, s.server.now.version, s.server.now.known = next, v, true })
	}, func(bool) { n.planning = false })
}

func (s *sim) remove(n *simNode, name string) {
	version := n.view.members[name].version
	s.request(n, func() {
		if m, ok := s.server.now.members[name]; ok && m.version == version {
			s.logf("%s deletes the lease of %s", n.name, name)
			s.server.write(func(string) { delete(s.server.now.members, name) })
		}
	}, func(bool) {})
}
