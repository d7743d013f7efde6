package shard

import (
	"fmt"
	"time"
)

const (
	ever = 24 * time.Hour
	// kinds is how many kinds of faults there are.
	kinds = 20
)

// chooseFaults chooses which kinds of faults happen: some of them often find more than all of them seldom.
func (s *sim) chooseFaults() {
	if s.quiet {
		s.kinds = []int{0, 1, 2} // slots move between members that work
		return
	}
	for kind := range kinds {
		if s.rng.IntN(3) == 0 {
			s.kinds = append(s.kinds, kind)
		}
	}
	if len(s.kinds) == 0 {
		s.kinds = append(s.kinds, s.rng.IntN(kinds))
	}
}

func (s *sim) fault() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	d := time.Second + time.Duration(s.rng.Int64N(int64(59*time.Second)))
	switch s.kinds[s.rng.IntN(len(s.kinds))] {
	case 0:
		s.join()
	case 1:
		s.logf("%s leaves", n.name)
		n.leaving = true
	case 2:
		s.logf("%s crashes", n.name)
		if !n.dead {
			n.dead, n.died = true, s.now
		}
	case 3, 4:
		s.logf("%s is paused for %v", n.name, d)
		n.pausedTill = s.now + d
	case 5:
		s.logf("%s is cut off for %v", n.name, d)
		n.cutTill = s.now + d
	case 6:
		s.logf("the watch of %s is stuck for %v", n.name, d)
		n.stuckTill = s.now + d
	case 7:
		s.logf("the server is away for %v", d)
		for _, n := range s.nodes {
			n.cutTill = s.now + d
		}
	case 8:
		n.slowest = d
	case 9:
		s.deleteAssignment()
		for s.rng.IntN(4) > 0 {
			s.after(time.Duration(s.rng.Int64N(int64(25*time.Second))), s.deleteAssignment)
		}
		s.deletions = s.rng.IntN(3)
	case 10:
		s.logf("the lease of %s is deleted", n.name)
		s.server.write(func(string) { delete(s.server.now.members, n.name) })
	case 11, 12:
		s.logf("the cache of %s is behind for %v", n.name, d)
		n.behindTill = s.now + d
	case 13:
		s.logf("the next work of %s that has to end does not", n.name)
		n.endless = true
	case 14:
		if m, ok := s.server.now.members[n.name]; ok {
			s.logf("another process writes to the lease of %s", n.name)
			s.server.write(func(v string) {
				m.process, m.version = "thief", v
				s.server.now.members[n.name] = m
			})
		}
	case 15, 16:
		if s.ranges {
			break
		}
		s.updated = !s.updated
		s.logf("a rolling update begins: others will have other rules: %v", s.updated)
		for i, n := range s.nodes {
			s.after(time.Duration(i)*d/4, func() {
				if s.faults && !n.dead && !n.leaving {
					s.logf("%s leaves", n.name)
					n.leaving = true
					s.join()
				}
			})
		}
	case 17, 18:
		s.logf("requests are slow for %v", d)
		s.sluggish = s.now + d
	case 19:
		if s.server.now.known {
			s.logf("a person writes rules that no member has into the assignment")
			edited := *s.server.now.assignment
			edited.rules = fmt.Sprint("edited at ", s.now)
			s.server.write(func(v string) { s.server.now.assignment, s.server.now.version = &edited, v })
		}
	}
}

// deleteAgain deletes an assignment that was just written in place of none, before or after some members see it.
func (s *sim) deleteAgain() {
	if s.deletions == 0 {
		return
	}
	s.deletions--
	s.after(time.Duration(s.rng.Int64N(int64(time.Second))), s.deleteAssignment)
	if late := s.nodes[s.rng.IntN(len(s.nodes))]; s.rng.IntN(2) == 0 {
		s.after(time.Duration(s.rng.Int64N(int64(time.Second))), func() { late.stuckTill = max(late.stuckTill, s.now+9*time.Second) })
	}
}

func (s *sim) deleteAssignment() {
	if !s.faults {
		return
	}
	s.logf("the assignment is deleted")
	s.server.write(func(string) {
		s.server.now.assignment, s.server.now.version, s.server.now.uid, s.server.now.known = none, "", "", false
	})
}

// heal ends the faults, except that some members never receive anything again, if one remains that
// does.
func (s *sim) heal() {
	s.faults, s.healed = false, s.now
	s.logf("the faults end")
	s.deletions, s.sluggish = 0, 0
	if s.rng.IntN(4) == 0 {
		s.logf("requests are slow for ever")
		s.sluggish = ever
	}
	healthy := false
	for _, n := range s.nodes {
		n.pausedTill, n.cutTill, n.stuckTill, n.behindTill, n.endless = 0, 0, 0, 0, false
		switch s.rng.IntN(6) {
		case 0:
			s.logf("the watch of %s is stuck for ever", n.name)
			n.stuckTill = ever
		case 1:
			s.logf("the cache of %s is behind for ever", n.name)
			n.behindTill = ever
		default:
			healthy = healthy || !n.dead && !n.leaving
		}
	}
	if !healthy {
		s.join()
	}
}
