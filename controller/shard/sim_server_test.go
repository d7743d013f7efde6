package shard

import (
	"fmt"
	"maps"
)

// simServer stores the leases of a group. Every write has its own version.
type simServer struct {
	version int
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

// request sends a request: do runs on the server, and answer on the node, if neither is lost.
func (s *sim) request(n *simNode, do func(), answer, end func()) {
	if n.cutTill > s.now || s.lost() {
		s.after(n.timing.request, end)
		return
	}
	s.after(s.delay(), func() {
		do()
		if s.lost() || n.cutTill > s.now {
			s.after(n.timing.request, end)
			return
		}
		s.after(s.delay(), func() {
			s.whenRunning(n, func() { answer(); end() })
		})
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

func (s *sim) renew(n *simNode) {
	n.busy = true
	name, sent, lease := n.name, n.moment(s.now), n.lease(n.moment(s.now))
	var version string
	taken := false
	s.request(n, func() {
		old, ok := s.server.now.members[name]
		if taken = ok && old.process != lease.process; taken || ok && old.term > lease.term {
			return // the resource version would not match
		}
		version = s.server.write(func(v string) {
			lease.version = v
			s.server.now.members[name] = lease
		})
	}, func() {
		switch {
		case taken:
			n.rename(s.newName())
		case version != "":
			n.stored(n.moment(s.now), sent, version)
		}
	}, func() { n.busy = false })
}

func (s *sim) write(n *simNode, next ruling) {
	n.planning = true
	v := n.view
	s.request(n, func() {
		if s.server.now.version != v.version {
			return
		}
		for i := range s.needs {
			slot := s.slot(i)
			before, after := v.slots[slot], next.slots[slot]
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
		s.server.write(func(v string) { s.server.now.ruling, s.server.now.version, s.server.now.known = &next, v, true })
	}, func() {}, func() { n.planning = false })
}

func (s *sim) remove(n *simNode, name string) {
	version := n.view.members[name].version
	s.request(n, func() {
		if m, ok := s.server.now.members[name]; ok && m.version == version {
			s.logf("%s deletes the lease of %s", n.name, name)
			s.server.write(func(string) { delete(s.server.now.members, name) })
		}
	}, func() {}, func() {})
}
