package shard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/internal/soak"
)

// TestP01_SimulatedGroups runs groups of members against a simulated API server, with delays, lost
// requests and responses, partitions, paused processes, clocks of different speeds, slow drains,
// joins, leaves and crashes. At no moment may two members work on one slot (P01), nor may one
// begin while a request that the other sent before it stopped can still be on its way (P03). When
// the faults have ended, every slot is worked on within a bound (P02).
func TestP01_SimulatedGroups(t *testing.T) {
	for seed := range uint64(soak.Rounds(100)) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { simulate(t, seed) }) {
			return
		}
	}
}

const simTick = 100 * time.Millisecond

// simServer stores the leases of a group. Every write has its own version.
type simServer struct {
	version int
	now     view
	states  []simState // what watches deliver, oldest first
}

type simState struct {
	at   time.Duration
	view view
}

func (s *simServer) write(at time.Duration, change func(version string)) string {
	s.version++
	members := map[string]member{}
	for name, m := range s.now.members {
		members[name] = m
	}
	s.now.members = members
	version := fmt.Sprint(s.version)
	change(version)
	s.states = append(s.states, simState{at, s.now})
	return version
}

type simNode struct {
	*machine
	start      time.Duration // in real time
	rate       float64
	seenStates int
	pausedTill time.Duration
	cutTill    time.Duration // no requests and no watch
	stuckTill  time.Duration // no watch
	dead       bool
	nextRenew  time.Duration // in real time
	nextStep   time.Duration
	leaveBy    time.Duration
	busy       bool // a renewal is on its way
	planning   bool // an assignment is on its way
	drains     map[Slot]time.Duration
	slowest    time.Duration // how long a drain may take
	open       map[Slot]bool
	lastOpen   map[Slot]time.Duration
}

func (n *simNode) moment(real time.Duration) moment {
	mono := time.Duration(float64(real-n.start) * n.rate)
	return moment{mono: mono, wall: time.Unix(1000, 0).Add(mono + n.start)}
}

type simEvent struct {
	at time.Duration
	do func()
}

type sim struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	server simServer
	nodes  []*simNode
	events []simEvent
	trace  strings.Builder
	faults bool
	joined int
	last   map[Slot]closing // who worked on a slot last
}

type closing struct {
	node *simNode
	at   time.Duration
}

func (s *sim) logf(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%9.3f "+format+"\n", append([]any{s.now.Seconds()}, args...)...)
}

func (s *sim) after(d time.Duration, do func()) { s.events = append(s.events, simEvent{s.now + d, do}) }

func (s *sim) delay() time.Duration {
	d := time.Duration(s.rng.ExpFloat64() * float64(20*time.Millisecond))
	if s.faults && s.rng.IntN(50) == 0 {
		d += time.Duration(s.rng.Int64N(int64(8 * time.Second)))
	}
	return d
}

func (s *sim) lost() bool { return s.faults && s.rng.IntN(40) == 0 }

func (s *sim) join() {
	s.joined++
	n := &simNode{
		machine: newMachine(fmt.Sprintf("n%d", s.joined), "p", 1+s.rng.IntN(2), timingOf(15*time.Second)),
		start:   s.now, rate: 0.9 + 0.2*s.rng.Float64(), drains: map[Slot]time.Duration{}, open: map[Slot]bool{}, lastOpen: map[Slot]time.Duration{},
		slowest: time.Duration(s.rng.Int64N(int64(4 * time.Second))), seenStates: len(s.server.states),
	}
	s.nodes = append(s.nodes, n)
	n.observe(n.moment(s.now), s.server.now)
	s.logf("%s joins, clock rate %.3f", n.name, n.rate)
}

// request sends a request: do runs on the server, and answer on the node, if neither is lost.
func (s *sim) request(n *simNode, do func() bool, answer func(ok bool), end func()) {
	if n.cutTill > s.now || s.lost() {
		s.after(n.timing.request, end)
		return
	}
	s.after(s.delay(), func() {
		ok := do()
		if s.lost() || n.cutTill > s.now {
			s.after(n.timing.request, end)
			return
		}
		s.after(s.delay(), func() {
			s.whenAwake(n, func() { answer(ok); end() })
		})
	})
}

func (s *sim) whenAwake(n *simNode, do func()) {
	if n.dead {
		return
	}
	if n.pausedTill > s.now {
		s.after(n.pausedTill-s.now, func() { s.whenAwake(n, do) })
		return
	}
	do()
}

func (s *sim) renew(n *simNode) {
	n.busy = true
	sent, lease := n.moment(s.now), n.lease()
	lease.released = cloneReleased(lease.released)
	var version string
	s.request(n, func() bool {
		if old, ok := s.server.now.members[n.name]; ok && old.life > lease.life {
			return false // the resource version would not match
		}
		version = s.server.write(s.now, func(v string) {
			lease.version = v
			s.server.now.members[n.name] = lease
		})
		return true
	}, func(ok bool) {
		if ok {
			n.stored(n.moment(s.now), sent, version)
		}
	}, func() { n.busy = false })
}

func cloneReleased(r released) released {
	c := released{}
	for k, v := range r {
		c[k] = v
	}
	return c
}

func (s *sim) write(n *simNode, next assignment) {
	n.planning = true
	base := n.view.version
	s.request(n, func() bool {
		if s.server.now.version != base {
			return false
		}
		s.server.write(s.now, func(v string) { s.server.now.slots, s.server.now.version, s.server.now.known = next, v, true })
		return true
	}, func(bool) {}, func() { n.planning = false })
}

func (s *sim) run(n *simNode) {
	now := n.moment(s.now)
	// The watch.
	if n.cutTill <= s.now && n.stuckTill <= s.now && n.seenStates < len(s.server.states) && s.rng.IntN(4) > 0 {
		n.seenStates += 1 + s.rng.IntN(len(s.server.states)-n.seenStates)
		n.observe(now, s.server.states[n.seenStates-1].view)
		n.nextStep = s.now
	}
	for slot, at := range n.drains {
		if at <= s.now {
			delete(n.drains, slot)
			n.drained(slot)
			n.nextStep = s.now
		}
	}
	if n.nextStep > s.now && n.nextRenew > s.now {
		return
	}
	n.nextStep = s.now + 500*time.Millisecond
	_, stop, changed := n.step(now)
	for _, slot := range stop {
		n.drains[slot] = s.now + time.Duration(s.rng.Int64N(int64(n.slowest)+1))
	}
	if changed {
		n.nextRenew = s.now
	}
	if n.nextRenew <= s.now && !n.busy {
		n.nextRenew = s.now + n.timing.renew
		s.renew(n)
	}
	if next, ok := n.plan(now); ok && !n.planning {
		s.write(n, next)
	}
	if n.leaving && len(n.held) == 0 && n.leaveBy == 0 {
		n.leaveBy = s.now + 5*time.Second
	}
	if n.leaving && (n.empty() || n.leaveBy > 0 && n.leaveBy <= s.now) && !n.busy {
		s.logf("%s has left", n.name)
		n.dead = true
		s.server.write(s.now, func(string) { delete(s.server.now.members, n.name) })
	}
}

// check looks for overlaps.
func (s *sim) check() {
	for _, n := range s.nodes {
		if n.dead || n.pausedTill > s.now {
			continue
		}
		now := n.moment(s.now)
		for slot, h := range n.held {
			if n.machine.check(now, slot, h.epoch) != nil {
				continue
			}
			if l := s.last[slot]; l.node != nil && l.node != n {
				idle := s.now - l.at
				expired := l.node.held[slot] != (holding{})
				if idle < simTick || expired && idle < l.node.timing.request-simTick {
					s.logf("%s works on slot %d, %v after %s", n.name, slot, idle, l.node.name)
					s.t.Fatalf("two members work on one slot:\n%s", s.tail())
				}
			}
			s.last[slot] = closing{n, s.now}
		}
	}
}

func (s *sim) tail() string {
	lines := strings.Split(s.trace.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

func (s *sim) fault() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	d := time.Second + time.Duration(s.rng.Int64N(int64(59*time.Second)))
	switch s.rng.IntN(11) {
	case 0:
		s.join()
	case 1:
		s.logf("%s leaves", n.name)
		n.leaving = true
	case 2:
		s.logf("%s crashes", n.name)
		n.dead = true
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
		s.logf("the assignment is deleted")
		s.server.write(s.now, func(string) { s.server.now.slots, s.server.now.version, s.server.now.known = assignment{}, "", false })
	case 10:
		s.logf("the lease of %s is deleted", n.name)
		s.server.write(s.now, func(string) { delete(s.server.now.members, n.name) })
	}
}

func (s *sim) tick() {
	s.now += simTick
	due := s.events[:0:0]
	rest := s.events[:0]
	for _, e := range s.events {
		if e.at <= s.now {
			due = append(due, e)
		} else {
			rest = append(rest, e)
		}
	}
	s.events = rest
	for _, e := range due {
		e.do()
	}
	alive := 0
	for _, n := range s.nodes {
		if !n.dead {
			if !n.leaving {
				alive++
			}
			if n.pausedTill <= s.now {
				s.run(n)
			}
		}
	}
	if alive == 0 {
		s.join()
	}
	s.check()
}

func simulate(t *testing.T, seed uint64) {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), last: map[Slot]closing{}, faults: true}
	s.server.now.members = map[string]member{}
	for range 1 + s.rng.IntN(6) {
		s.join()
	}
	next := time.Duration(0)
	for s.now < 150*time.Second {
		s.tick()
		if s.now >= next {
			next = s.now + time.Duration(s.rng.Int64N(int64(15*time.Second)))
			s.fault()
		}
	}
	s.faults = false
	var slowest time.Duration
	for _, n := range s.nodes {
		n.pausedTill, n.cutTill, n.stuckTill = 0, 0, 0
		slowest = max(slowest, n.slowest)
	}
	s.logf("the faults end")
	// The bound: two lease durations on the slowest clock, one drain, and requests.
	for end := s.now + 40*time.Second + slowest; s.now < end; {
		s.tick()
	}
	working := map[Slot]bool{}
	for _, n := range s.nodes {
		if !n.dead {
			for slot, h := range n.held {
				if n.machine.check(n.moment(s.now), slot, h.epoch) == nil {
					working[slot] = true
				}
			}
		}
	}
	if len(working) != Slots {
		for _, n := range s.nodes {
			s.logf("%s: dead %v phase %d life %d leaving %v held %d candidates %v", n.name, n.dead, n.phase, n.life, n.leaving, len(n.held), n.candidates)
		}
		t.Fatalf("%d of %d slots are worked on:\n%s", len(working), Slots, s.tail())
	}
}
