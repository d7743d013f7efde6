package shard

import "time"

const ever = 24 * time.Hour

func (s *sim) fault() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	d := time.Second + time.Duration(s.rng.Int64N(int64(59*time.Second)))
	kinds := 15
	if s.quiet {
		kinds = 3 // slots move between members that work
	}
	switch s.rng.IntN(kinds) {
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
		if s.deleted > 0 && s.now-s.deleted < time.Minute {
			break // the protocol does not cover two deletions in a row; see the package documentation
		}
		s.deleted = s.now
		s.logf("the assignment is deleted")
		s.server.write(func(string) { s.server.now.ruling, s.server.now.version, s.server.now.known = none, "", false })
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
	}
}

// heal ends the faults, except that some members never receive anything again, if one remains that
// does.
func (s *sim) heal() {
	s.faults = false
	s.logf("the faults end")
	healthy := false
	for _, n := range s.nodes {
		n.pausedTill, n.cutTill, n.stuckTill, n.behindTill = 0, 0, 0, 0
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
