package shard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

type simNode struct {
	*machine
	start      time.Duration // in real time
	rate       float64
	seenStates int
	pausedTill time.Duration
	cutTill    time.Duration // no requests and no watch
	stuckTill  time.Duration // no watch
	behindTill time.Duration // the cache does not change
	dead       bool
	died       time.Duration
	nextStep   time.Duration
	leaveBy    time.Duration
	base       string // the version of its lease; empty: not known
	planning   bool   // an assignment is on its way
	drains     map[Slot]time.Duration
	slowest    time.Duration // how long a drain may take
	endless    bool          // the next drain does not end
	cache      int           // the version that it has
	current    time.Duration // when it was the version of the server
	waits      map[Slot]int  // started slots, and which version their work waits for
	listed     slotSet       // with ranges: the slots that the cache has
}

func (n *simNode) moment(real time.Duration) moment {
	mono := time.Duration(float64(real-n.start) * n.rate)
	return moment{Mono: mono, Wall: time.Unix(1000, 0).Add(mono + n.start)}
}

func (s *sim) join() {
	lease := 15 * time.Second
	if s.rng.IntN(4) == 0 {
		lease = 30 * time.Second
	}
	t := timingOf(lease)
	t.abandon = 2 * lease // much earlier than in reality, so that it happens
	if s.plant.lapse {
		t.lapse = t.expiry
	}
	if s.plant.impatient {
		t.request = ever
	}
	if s.plant.recent {
		t.unseen = 0
	}
	n := &simNode{
		machine: newMachine(s.newName(), fmt.Sprint("p", s.joined), 1+s.rng.IntN(2), t),
		start:   s.now, rate: 0.9 + 0.2*s.rng.Float64(), drains: map[Slot]time.Duration{}, waits: map[Slot]int{},
		slowest: time.Duration(s.rng.Int64N(int64(4 * time.Second))), seenStates: len(s.server.states), cache: s.writes,
	}
	n.ranges = s.ranges
	if !s.ranges && (s.updated || s.rng.IntN(20) == 0) {
		n.rules = "updated"
	}
	s.nodes = append(s.nodes, n)
	n.working(n.moment(s.now), true)
	s.show(n, s.server.now)
	s.logf("%s joins, clock rate %.3f, lease %v, rules %q", n.name, n.rate, lease, n.rules)
}

// show gives a view to a node.
func (s *sim) show(n *simNode, v view) {
	if s.plant.rules {
		r := *v.assignment
		r.rules = n.rules
		v.assignment = &r
		v.members = maps.Clone(v.members)
		for name, m := range v.members {
			m.rules = n.rules
			v.members[name] = m
		}
	}
	if s.plant.line && v.known {
		r := *v.assignment
		r.line = ""
		v.assignment, v.uid = &r, ""
	}
	if s.plant.duration || s.plant.ready {
		v.members = maps.Clone(v.members)
		for name, m := range v.members {
			m.ready = m.ready || s.plant.ready
			if s.plant.duration {
				m.duration = n.timing.expiry
			}
			v.members[name] = m
		}
		if s.plant.duration && v.assignment != none {
			r := *v.assignment
			r.duration = 0
			v.assignment = &r
		}
	}
	n.observe(n.moment(s.now), v)
}

// follows has the states of a slot that a step may lead to, as their comments say. A released slot that the member gets
// again is unused only within the step.
var follows = map[slotState][]slotState{unused: {working, freed}, working: {draining}, draining: {stuck}, freed: {unused, working}}

func (s *sim) run(n *simNode) {
	now := n.moment(s.now)
	if n.behindTill <= s.now && s.rng.IntN(s.slow) == 0 {
		s.receive(n)
	}
	if n.cutTill <= s.now && n.stuckTill <= s.now && n.seenStates < len(s.server.states) && s.rng.IntN(4) > 0 {
		n.seenStates += 1 + s.rng.IntN(len(s.server.states)-n.seenStates)
		s.show(n, s.server.states[n.seenStates-1])
		n.nextStep = s.now
	}
	for slot, at := range n.drains {
		if at <= s.now {
			delete(n.drains, slot)
			delete(n.waits, slot)
			n.ended(slot)
			n.nextStep = s.now
		}
	}
	if n.nextStep > s.now && n.due > now.Mono && n.pending == 0 {
		return
	}
	n.nextStep = s.now + 500*time.Millisecond
	n.working(now, n.behindTill <= s.now)
	if s.ranges {
		s.list(n)
	}
	before, slots := n.phase, n.slots
	do := n.step(now)
	for i, w := range n.slots {
		if was := slots[i].state; was != w.state && !slices.Contains(follows[was], w.state) {
			s.failf("%s: slot %d changed from state %d to %d", n.name, i, was, w.state)
		}
	}
	if n.phase == lapsed && before == active && n.lease(now).blocked == (slotSet{}) && s.healed > 0 && s.now > s.healed+time.Minute && n.stuckTill <= s.now {
		s.failf("%s lapsed, and nothing but the latency of requests was wrong", n.name)
	}
	for _, slot := range do.start {
		n.waits[slot] = versionOf(n.view.written[s.part(slot)])
	}
	for _, slot := range do.stop {
		n.drains[slot] = s.now + time.Duration(s.rng.Int64N(int64(n.slowest)+1))
		if n.endless {
			n.drains[slot], n.endless = ever, false
		}
	}
	if do.renewal != nil {
		s.renew(n, *do.renewal)
	}
	if do.assignment != nil && !n.planning {
		s.write(n, do.assignment)
	}
	if do.abandoned != "" && !s.plant.forget {
		s.remove(n, do.abandoned)
	}
	if n.leaving && n.works() == 0 && n.leaveBy == 0 {
		n.leaveBy = s.now + 5*time.Second
	}
	if n.leaving && (n.empty() || n.leaveBy > 0 && n.leaveBy <= s.now) && n.pending == 0 {
		s.logf("%s has left", n.name)
		n.dead, n.died = true, s.now
		s.server.write(func(string) { delete(s.server.now.members, n.name) })
	}
}

// receive gives a node the events of its cache. With ranges these are the writes to the slots that it
// has, and otherwise it learns of a version from bookmarks only.
func (s *sim) receive(n *simNode) {
	reached := s.writes
	if s.ranges && s.now-n.current < simBookmark {
		reached = n.cache
		for i, wrote := range s.wrote {
			if n.listed[s.slot("", i)] {
				reached = max(reached, wrote)
			}
		}
	}
	if n.cache = reached; reached == s.writes {
		n.current = s.now
	}
}

// list lists some of the slots that a node needs, and removes the others. They are listed at the version
// that the cache has of the others.
func (s *sim) list(n *simNode) {
	for i, needed := range n.needs() {
		n.listed[i] = needed && (n.listed[i] || n.behindTill <= s.now && s.rng.IntN(4) == 0)
	}
	n.cached = n.listed
	for i := range n.cached {
		n.cached[i] = n.cached[i] || s.plant.cached
	}
}

func versionOf(v object.Version) (n int) {
	for _, digit := range []byte(v) {
		n = 10*n + int(digit-'0')
	}
	return n
}
