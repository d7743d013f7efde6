package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// TestP01_SimulatedGroups runs groups of members against a simulated API server, with delays, lost
// requests and responses, partitions, paused processes, clocks of different speeds, slow drains,
// caches that are behind, joins, leaves and crashes.
//
//   - At no moment may two members work on one slot (P01), nor may one begin while a request that
//     the other sent before it stopped can still be on its way, or before its cache has what the
//     other wrote before it released the slot (P03).
//   - When the faults have ended, except that some members never see or do anything again, every
//     slot is worked on within a bound (P02), and the leases of crashed members are deleted.
func TestP01_SimulatedGroups(t *testing.T) {
	soak.Measures(t)                              // one goroutine
	seeds := uint64(min(soak.Rounds(2000), 3000)) // 25 ms of CPU each
	const parts = 8
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += parts {
				if err := simulate(seed, plant{}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// plant is a fault in the protocol that the simulation has to find.
type plant struct {
	lapse    bool // work goes on as long as the lease
	duration bool // members believe that all leases are as long as their own
	ready    bool // members that cannot work get slots
	written  bool // a new owner does not wait for its cache
	forget   bool // leases of crashed members stay
	cached   bool // a new owner does not wait until its cache has the objects of a slot
}

func TestTheSimulationFindsFaultsOfTheProtocol(t *testing.T) {
	soak.Measures(t)
	for name, p := range map[string]plant{
		"lapse": {lapse: true}, "duration": {duration: true}, "ready": {ready: true}, "written": {written: true}, "forget": {forget: true}, "cached": {cached: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				if err := simulate(seed, p); err != nil {
					t.Logf("seed %d: %.60s", seed, err.Error())
					return
				}
			}
			t.Error("200 seeds have not found it")
		})
	}
}

const (
	simTick = 100 * time.Millisecond
	// checked is how many slots are checked for overlaps. All are treated alike.
	checked = 16
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
	nextRenew  time.Duration // in real time
	nextStep   time.Duration
	leaveBy    time.Duration
	busy       bool // a renewal is on its way
	planning   bool // an assignment is on its way
	drains     map[Slot]time.Duration
	slowest    time.Duration // how long a drain may take
	cache      int           // the version that it has
	waits      map[Slot]int  // started slots, and which version their work waits for
	listed     slotSet       // with ranges: the slots that the cache has
}

func (n *simNode) moment(real time.Duration) moment {
	mono := time.Duration(float64(real-n.start) * n.rate)
	return moment{Mono: mono, Wall: time.Unix(1000, 0).Add(mono + n.start)}
}

type simEvent struct {
	at time.Duration
	do func()
}

type sim struct {
	rng    *rand.Rand
	plant  plant
	now    time.Duration
	server simServer
	nodes  []*simNode
	events []simEvent
	trace  []string
	faults bool
	joined int
	offset Slot             // the first slot that is checked
	last   [checked]closing // who worked on a slot last
	err    error            // what went wrong first
	writes int              // version of the last object that was written
	wrote  [checked]int     // version of the last object of a slot
	needs  [checked]int     // version that an owner must have before it works
	cache  part
	ranges bool // slots are ranges of hashes, which nodes have to list
}

type closing struct {
	node *simNode
	at   time.Duration
}

func (s *sim) slot(i int) Slot { return s.offset + Slot(i*(Slots/checked)) }

func (s *sim) logf(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%9.3f "+format, append([]any{s.now.Seconds()}, args...)...))
}

func (s *sim) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format+":\n%s", append(args, strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))...)
	}
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

func (s *sim) newName() string {
	s.joined++
	return fmt.Sprintf("n%d", s.joined)
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
	n := &simNode{
		machine: newMachine(s.newName(), fmt.Sprint("p", s.joined), 1+s.rng.IntN(2), t),
		start:   s.now, rate: 0.9 + 0.2*s.rng.Float64(), drains: map[Slot]time.Duration{}, waits: map[Slot]int{},
		slowest: time.Duration(s.rng.Int64N(int64(4 * time.Second))), seenStates: len(s.server.states), cache: s.writes,
	}
	n.ranges = s.ranges
	s.nodes = append(s.nodes, n)
	n.working(n.moment(s.now), true)
	s.show(n, s.server.now)
	s.logf("%s joins, clock rate %.3f, lease %v", n.name, n.rate, lease)
}

// show gives a view to a node.
func (s *sim) show(n *simNode, v view) {
	if s.plant.duration || s.plant.ready {
		v.members = maps.Clone(v.members)
		for name, m := range v.members {
			m.ready = m.ready || s.plant.ready
			if s.plant.duration {
				m.duration = n.timing.expiry
			}
			v.members[name] = m
		}
		if s.plant.duration && v.ruling != none {
			r := *v.ruling
			r.duration = 0
			v.ruling = &r
		}
	}
	n.observe(n.moment(s.now), v)
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
			s.whenAwake(n, func() { answer(); end() })
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
	name, sent, lease := n.name, n.moment(s.now), n.lease(n.moment(s.now))
	var version string
	taken := false
	s.request(n, func() {
		old, ok := s.server.now.members[name]
		if taken = ok && old.process != lease.process; taken || ok && old.life > lease.life {
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
			s.needs[i] = 0
			if old, ok := v.members[before.owner.name]; ok && (old.life > before.owner.life || old.released[slot] == before.epoch) {
				s.needs[i] = s.wrote[i] // the old owner has ended its work
			}
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

func (s *sim) run(n *simNode) {
	now := n.moment(s.now)
	if n.behindTill <= s.now && s.rng.IntN(3) > 0 {
		n.cache = s.writes
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
			n.drained(slot)
			n.nextStep = s.now
		}
	}
	if n.nextStep > s.now && n.nextRenew > s.now {
		return
	}
	n.nextStep = s.now + 500*time.Millisecond
	n.working(now, n.behindTill <= s.now)
	if s.ranges {
		s.list(n)
	}
	start, stop, changed := n.step(now)
	for _, slot := range start {
		n.waits[slot] = versionOf(n.view.written[s.cache])
	}
	for _, slot := range stop {
		n.drains[slot] = s.now + time.Duration(s.rng.Int64N(int64(n.slowest)+1))
	}
	if changed {
		n.nextRenew = s.now
	}
	if n.nextRenew <= s.now && !n.busy && n.phase != lapsed {
		n.nextRenew = s.now + n.timing.renew
		s.renew(n)
	}
	if next, ok := n.plan(now); ok && !n.planning {
		s.write(n, next)
	}
	if name, ok := n.abandoned(now); ok && !s.plant.forget {
		s.remove(n, name)
	}
	if n.leaving && n.holds == 0 && n.leaveBy == 0 {
		n.leaveBy = s.now + 5*time.Second
	}
	if n.leaving && (n.empty() || n.leaveBy > 0 && n.leaveBy <= s.now) && !n.busy {
		s.logf("%s has left", n.name)
		n.dead, n.died = true, s.now
		s.server.write(func(string) { delete(s.server.now.members, n.name) })
	}
}

// list lists some of the slots that a node needs, and removes the others.
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

// check looks for overlaps.
func (s *sim) check() {
	for _, n := range s.nodes {
		now := n.moment(s.now)
		if n.dead || n.pausedTill > s.now || !n.machine.open(now) {
			continue
		}
		for i := range s.last {
			slot := s.slot(i)
			if h := n.held[slot]; h.epoch == 0 || n.machine.check(now, slot, h.epoch) != nil {
				continue
			}
			if l := s.last[i]; l.node != nil && l.node != n {
				idle := s.now - l.at
				expired := l.node.held[slot].epoch != 0
				if idle < simTick || expired && idle < 2*time.Second-simTick {
					s.logf("%s works on slot %d, %v after %s", n.name, slot, idle, l.node.name)
					s.failf("two members work on one slot")
				}
			}
			s.last[i] = closing{n, s.now}
			if s.ranges && !n.listed[slot] {
				s.failf("%s works on slot %d, which its cache does not have", n.name, slot)
			}
			if n.cache < n.waits[slot] && !s.plant.written {
				continue // the work has not begun
			}
			if n.cache < s.needs[i] {
				s.logf("%s works on slot %d at version %d of %d", n.name, slot, n.cache, s.needs[i])
				s.failf("a new owner has an old cache")
			}
			s.needs[i] = 0
			if s.rng.IntN(20) == 0 {
				s.writes++
				s.wrote[i] = s.writes
				n.written.add(s.cache, object.Version(fmt.Sprint(s.writes)), now.Mono)
			}
		}
	}
}

func (s *sim) fault() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	d := time.Second + time.Duration(s.rng.Int64N(int64(59*time.Second)))
	switch s.rng.IntN(14) {
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
		s.logf("the assignment is deleted")
		s.server.write(func(string) { s.server.now.ruling, s.server.now.version, s.server.now.known = none, "", false })
	case 10:
		s.logf("the lease of %s is deleted", n.name)
		s.server.write(func(string) { delete(s.server.now.members, n.name) })
	case 11, 12:
		s.logf("the cache of %s is behind for %v", n.name, d)
		n.behindTill = s.now + d
	case 13:
		if m, ok := s.server.now.members[n.name]; ok {
			s.logf("another process writes to the lease of %s", n.name)
			s.server.write(func(v string) {
				m.process, m.version = "thief", v
				s.server.now.members[n.name] = m
			})
		}
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
	alive := false
	for _, n := range s.nodes {
		if !n.dead {
			alive = alive || !n.leaving
			if n.pausedTill <= s.now {
				s.run(n)
			}
		}
	}
	if !alive {
		s.join()
	}
	s.check()
}

func simulate(seed uint64, p plant) error {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), plant: p, faults: true, offset: Slot(seed % (Slots / checked)), cache: part{cache: "objects"}, ranges: seed%3 == 0}
	s.server.now = view{members: map[string]member{}, ruling: none}
	for range 1 + s.rng.IntN(6) {
		s.join()
	}
	for next := time.Duration(0); s.now < 150*time.Second && s.err == nil; {
		s.tick()
		if s.now >= next {
			next = s.now + time.Duration(s.rng.Int64N(int64(15*time.Second)))
			s.fault()
		}
	}
	s.heal()
	ended := s.now
	var slowest time.Duration
	for _, n := range s.nodes {
		slowest = max(slowest, n.slowest)
	}
	// The bound: two lease durations on the slowest clock, one drain, requests, and a list.
	for end := s.now + 85*time.Second + slowest; s.now < end && s.err == nil; {
		s.tick()
	}
	if s.err == nil {
		s.settled(ended)
	}
	return s.err
}

// heal ends the faults, except that some members never receive anything again, if one remains that
// does.
func (s *sim) heal() {
	s.faults = false
	s.logf("the faults end")
	const ever = 24 * time.Hour
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

// settled checks what must be true after the bound.
func (s *sim) settled(ended time.Duration) {
	var working [Slots]bool
	slots := 0
	for _, n := range s.nodes {
		now := n.moment(s.now)
		if n.dead || n.behindTill > s.now {
			continue
		}
		for i, h := range n.held {
			if h.epoch != 0 && n.machine.check(now, Slot(i), h.epoch) == nil && !working[i] {
				working[i] = true
				slots++
			}
		}
	}
	if slots != Slots {
		for _, n := range s.nodes {
			s.logf("%s: dead %v phase %d life %d leaving %v able %v holds %d candidates %v", n.name, n.dead, n.phase, n.life, n.leaving, n.able, n.holds, n.candidates)
		}
		s.failf("%d of %d slots are worked on", slots, Slots)
	}
	for _, n := range s.nodes {
		if _, ok := s.server.now.members[n.name]; ok && n.dead && n.died < ended-60*time.Second {
			s.failf("the lease of %s, which ended at %v, exists", n.name, n.died)
		}
	}
}
