package shard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/lease"
)

// moment is a reading of both clocks of a process.
type moment = lease.Moment

// member is the lease of a member.
type member struct {
	version  string // its resource version, which changes with each renewal
	process  string // distinguishes processes that have the same name
	term     int64
	weight   int
	duration time.Duration // its LeaseDuration
	ready    bool          // it can work: its watches and caches are current
	leaving  bool
	released released
	cached   slotSet  // with ranges: the slots whose objects its caches have
	blocked  slotSet  // the slots that it cannot get, because work does not end
	written  versions // what it has written lately
	rules    string   // how it divides keys: see ruling
}

// view is one state of the group's leases: all of them at one resource version.
type view struct {
	members map[string]member
	version string // of the assignment; empty if there is none
	*ruling        // not changed; empty if the assignment is not known
	// known is false if there is no assignment, or none that can be read. Members may still work
	// on slots that an earlier one gave them.
	known bool
	// uid is that of the lease with the assignment. Together with the line of the ruling it says whether
	// two assignments are of one line: each was written in place of the one before.
	uid string
}

// machine decides for one member what it may work on and how the assignment changes. It does no
// input or output and reads no clock, so that it can be simulated. One goroutine at a time uses
// it.
type machine struct {
	name    string
	process string
	weight  int
	timing  timing
	ranges  bool   // the slots are ranges of hashes, and the caches have those of needs only
	rules   string // how this process divides keys

	phase           phase
	term            int64
	ended           time.Duration // when step saw first that the phase is lapsed; negative: it is not
	leaving         bool
	able            bool          // the process can work, or could not only for a short time
	failing         time.Duration // since when it cannot; negative: it can
	cached          slotSet       // with ranges: the slots whose objects the caches have
	blocked         slotSet       // the slots with work that does not end
	reportedReady   bool          // what lease returned last as ready
	reportedCached  slotSet       // what lease returned last as cached
	reportedBlocked slotSet       // what lease returned last as blocked
	released        released      // of this term
	unreported      bool          // released has slots that lease did not return yet
	reported        time.Duration // when lease was called last
	written         history       // what this process wrote
	renamed         string        // the name of the next term; empty: the same

	// sent are renewals that the server has stored and that the view does not show yet, oldest
	// first. confirmed is when the last one that the view shows was sent.
	sent      []renewal
	confirmed moment

	view  view
	ruled time.Duration // when the assignment of the view was seen first
	since time.Duration // when the line of the assignment was seen first, or that it is missing
	// expiry is the longest lease of all members, which all wait for, and long when it was last seen: that of a
	// member whose lease was deleted also counts.
	expiry, long time.Duration
	// seen is when each lease was first seen as it is in the view, and missing since when each
	// owner in the assignment has no lease.
	seen    map[string]sighting
	missing map[string]time.Duration
	viewed  bool // a view has come
	// candidates are the members that slots can be placed on, all of which divide keys by target, and places the
	// best one for each slot; settledPlaces are those of when the candidates were settled last. changed is when they
	// last changed, and unsettled when they first changed after a quiet time.
	candidates            []candidate
	target                string
	places, settledPlaces [Slots]string
	changed, unsettled    time.Duration
	due                   time.Duration // since when a plan is due; negative: none
	noted                 history       // what the view has as written

	// nextRenew is when the next renewal is due, sending how many wait for an answer, and lastSent when the
	// last one was sent.
	nextRenew time.Duration
	sending   int
	lastSent  time.Duration

	// held are the slots that this member works on or drains, and holds how many that are in this term.
	held  [Slots]holding
	holds int
	// owners are the different owners in the view, and ownerOf which of them each slot has. All
	// slots are looked at often, so names are compared once.
	owners  []owner
	ownerOf [Slots]int
}

// phase is the state of a member.
type phase uint8

const (
	// joining: no renewal of this term has been confirmed.
	joining phase = iota
	// active: slots can be worked on until the lease lapses.
	active
	// lapsed: work has to end. A new term begins after that, or when the others do not wait any more.
	lapsed
)

type renewal struct {
	version string
	at      moment
}

type sighting struct {
	version string
	at      time.Duration
}

type holding struct {
	epoch    uint64 // in which the work began; 0: none
	draining bool
	since    time.Duration // since when it drains
	// stuck: it has not ended before a later term began. Another member may have the slot; this one
	// does not get it before the work has ended.
	stuck bool
}

// none is the ruling of a view without a known assignment.
var none = &ruling{}

func newMachine(name, process string, weight int, t timing) *machine {
	return &machine{
		name: name, process: process, weight: weight, timing: t, term: 1, released: released{}, due: -1, failing: -1, ended: -1, expiry: t.expiry,
		written: history{}, noted: history{},
		seen: map[string]sighting{}, missing: map[string]time.Duration{}, view: view{ruling: none}, owners: []owner{{}},
	}
}

// lease returns what this member's lease must say.
func (m *machine) lease(now moment) member {
	m.unreported, m.reported = false, now.Mono
	m.reportedReady, m.reportedCached, m.reportedBlocked = m.ready(), m.has(), m.blocked
	return member{
		process: m.process, term: m.term, weight: m.weight, duration: m.timing.expiry, ready: m.reportedReady, leaving: m.leaving,
		released: maps.Clone(m.released), cached: m.reportedCached, blocked: m.blocked, rules: m.rules, written: m.written.Since(now.Mono - m.remember()),
	}
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

// needs returns the slots whose objects the caches must have, if the slots are ranges: those that
// this member works on or drains, owns, is about to get, or should have.
func (m *machine) needs() (needs slotSet) {
	for i := range needs {
		p := &m.view.slots[i]
		needs[i] = m.held[i].epoch != 0 || p.owner.name == m.name || p.next == m.name || m.settledPlaces[i] == m.name
	}
	return needs
}

// has returns the slots whose objects the caches have, if the slots are ranges. A cache that is added
// lists those that this member works on, which does not end the work.
func (m *machine) has() slotSet {
	slots := m.cached
	for i, h := range m.held {
		slots[i] = slots[i] || m.ranges && h.epoch != 0 && !h.stuck
	}
	return slots
}

// ready reports whether slots can be placed on this member: its own watch shows its lease, and
// the process can work.
func (m *machine) ready() bool { return m.phase == active && m.able }

// working records whether the process can work, such as whether its caches are current. One that could is
// ready until it could not for a lease duration, so that an interrupted watch moves no slots.
func (m *machine) working(now moment, can bool) {
	switch {
	case can:
		m.able, m.failing = true, -1
	case m.failing < 0:
		m.failing = now.Mono
	case now.Mono-m.failing >= m.timing.expiry:
		m.able = false
	}
}

// observe takes over a new view.
func (m *machine) observe(now moment, v view) {
	if v.ruling != m.view.ruling || !m.viewed {
		m.owners = nil
		for i := range v.slots {
			o := v.slots[i].owner
			if m.ownerOf[i] = slices.Index(m.owners, o); m.ownerOf[i] < 0 {
				m.ownerOf[i] = len(m.owners)
				m.owners = append(m.owners, o)
			}
		}
	}
	was := m.view
	m.view = v
	if !m.viewed || !v.continues(was) {
		m.viewed, m.since = true, now.Mono
	}
	if mine := v.members[m.name]; mine.process == m.process && mine.term > m.term {
		m.phase, m.term = lapsed, mine.term // a person wrote it: others count this term as ended
	}
	expiry := max(m.timing.expiry, v.duration)
	if v.version != was.version {
		m.ruled = now.Mono
		m.note(now, v.written)
	}
	for name, other := range v.members {
		expiry = max(expiry, other.duration)
		if s, ok := m.seen[name]; !ok || s.version != other.version {
			m.note(now, other.written)
			m.seen[name] = sighting{other.version, now.Mono}
		}
	}
	for name := range m.seen {
		if _, ok := v.members[name]; !ok {
			delete(m.seen, name)
		}
	}
	if expiry >= m.expiry || now.Mono-m.long >= m.expiry {
		m.expiry, m.long = expiry, now.Mono
	}
	for _, o := range m.owners {
		if _, ok := v.members[o.name]; !ok && o.name != "" {
			if _, ok := m.missing[o.name]; !ok {
				m.missing[o.name] = now.Mono
			}
		}
	}
	for name := range m.missing {
		if _, ok := v.members[name]; ok || !slices.ContainsFunc(m.owners, func(o owner) bool { return o.name == name }) {
			delete(m.missing, name)
		}
	}
	m.confirm()
}

// continues reports whether the assignment of a view is of the same line as that of an earlier one.
func (v *view) continues(earlier view) bool {
	return v.known == earlier.known && v.uid == earlier.uid && v.line == earlier.line
}

func (m *machine) note(now moment, written versions) {
	for p, version := range written {
		m.noted.Add(p, version, now.Mono)
	}
}

// check returns nil while work on a slot that began in the given epoch may go on, and otherwise an
// error that wraps [controller.ErrNotLeading]. Work that is being drained may go on: the slot is
// released when it has ended.
func (m *machine) check(now moment, slot Slot, epoch uint64) error {
	if err := m.lapsed(now); err != nil {
		return err
	}
	if h := m.held[slot]; h.epoch != epoch || h.stuck || m.view.slots[slot].owner != (owner{m.name, m.term}) {
		return fmt.Errorf("shard: slot %d was released after epoch %d: %w", slot, epoch, controller.ErrNotLeading)
	}
	return nil
}

// lapsed returns nil while this member may work at all, and otherwise why not.
func (m *machine) lapsed(now moment) error {
	if m.open(now) {
		return nil
	}
	if m.phase != active {
		return fmt.Errorf("shard: %s is not an active member of its group: %w", m.name, controller.ErrNotLeading)
	}
	return fmt.Errorf("shard: the lease of %s was renewed %v ago and lapsed after %v: %w",
		m.name, now.Since(m.confirmed).Round(time.Millisecond), m.timing.lapse, controller.ErrNotLeading)
}

// open reports whether this member may work at all.
func (m *machine) open(now moment) bool {
	return m.phase == active && now.Since(m.confirmed) < m.timing.lapse
}

// step compares what this member works on with the view, and returns the slots to start and
// those to stop. The caller stops the work on a slot and calls drained when it has ended.
// changed is true if the lease has to be renewed at once because it says something new.
func (m *machine) step(now moment) (start, stop []Slot, changed bool) {
	if m.phase == active && !m.open(now) {
		m.phase = lapsed
	}
	me := slices.Index(m.owners, owner{m.name, m.term})
	if m.phase != active {
		me = -1
	}
	draining := false // a slot that is to be released
	working, hung := false, false
	for i := range m.held {
		slot, p, h := Slot(i), &m.view.slots[i], &m.held[i]
		mine := me >= 0 && m.ownerOf[i] == me
		// A person can write an assignment by which a member with other rules owns slots.
		stay := mine && p.next == "" && !m.leaving && m.rules == m.view.rules
		switch held := h.epoch != 0; {
		case held && !h.draining && (!stay || h.epoch != p.epoch):
			h.draining, h.since = true, now.Mono
			stop = append(stop, slot)
		case !held && stay && m.ranges && !m.cached[i]: // the caches do not have its objects yet
		case !held && stay && m.released[slot] != p.epoch:
			*h = holding{epoch: p.epoch}
			m.holds++
			delete(m.released, slot)
			start = append(start, slot)
		case !held && mine && !stay && m.released[slot] != p.epoch:
			m.released[slot] = p.epoch
			m.unreported = true
		}
		draining = draining || mine && h.draining && !h.stuck
		working = working || h.epoch != 0 && !h.draining
		// Other members see that a reconcile does not end, and do not give the slot back to this one.
		m.blocked[i] = h.stuck || h.draining && now.Mono-h.since >= m.expiry
		hung = hung || m.blocked[i] && !h.stuck
	}
	// Members with other rules wait for all slots. One reconcile must not keep them from all others.
	if hung && !working && m.phase == active && m.target != m.view.rules {
		m.phase = lapsed
	}
	changed = m.unreported && (!draining || now.Mono-m.reported >= m.timing.batch)
	for slot, epoch := range m.released {
		if m.view.slots[slot].epoch != epoch {
			delete(m.released, slot) // the group has moved on
		}
	}
	if m.phase == lapsed && m.ended < 0 {
		m.ended = now.Mono
	}
	// The others do not wait for reconciles that ignore that they were cancelled, and one of them must
	// not keep this member from all other slots.
	if m.phase == lapsed && (m.holds == 0 || now.Mono-m.ended >= m.expiry) {
		m.phase, m.released, m.unreported, m.sent, m.ended, m.holds, changed = joining, released{}, false, nil, -1, 0, true
		for i := range m.held {
			m.held[i].stuck = m.held[i].epoch != 0
			m.blocked[i] = m.held[i].stuck
		}
		m.term++
		if m.renamed != "" {
			m.name, m.renamed, m.term = m.renamed, "", 1
		}
	}
	return start, stop, changed || m.ready() != m.reportedReady || m.has() != m.reportedCached || m.blocked != m.reportedBlocked
}

// rename ends this term: another process writes to the lease. The next term has another name.
func (m *machine) rename(name string) { m.phase, m.renamed = lapsed, name }

// drained records that the work on a slot has ended.
func (m *machine) drained(slot Slot) {
	if !m.held[slot].stuck {
		m.holds--
	}
	m.held[slot], m.blocked[slot] = holding{}, false
}

// empty reports whether this member works on no slot in this term and either owns none or has no other member
// to give them to, so that it can leave.
func (m *machine) empty() bool {
	if m.holds > 0 {
		return false
	}
	return !slices.ContainsFunc(m.candidates, func(c candidate) bool { return c.name != m.name }) ||
		!slices.ContainsFunc(m.view.slots[:], func(p placement) bool { return p.owner.name == m.name })
}

// waiting returns how many slots are to be handed over to this member, and whether it takes part.
func (m *machine) waiting() (slots int, joined bool) {
	for i, name := range m.places {
		if h := m.held[i]; name == m.name && (h.epoch == 0 || h.draining) {
			slots++
		}
	}
	return slots, m.isCandidate(m.name)
}

// others returns the names of the members that divide keys in another way, and by which the group works.
func (m *machine) others() (names []string) {
	if m.rules == m.view.rules || m.target != m.view.rules {
		return nil
	}
	for i := range m.candidates {
		names = append(names, m.candidates[i].name)
	}
	return names
}

// idle returns how many slots no member works on, as far as this member sees: an owner that has to release a
// slot begins nothing on it, however long its running reconciles take.
func (m *machine) idle(now moment) (slots int) {
	states := m.states()
	for i, at := range m.ownerOf {
		s := &states[at]
		if other, present := m.view.members[s.name]; !present || m.ranges && !other.cached[i] {
			slots++
		} else if s.ended || other.leaving || other.blocked[i] || m.view.slots[i].next != "" || s.name == m.name && m.held[i].draining || s.releases(Slot(i), m.view.slots[i].epoch) || now.Mono-m.seen[s.name].at >= timingOf(other.duration).lapse {
			slots++
		}
	}
	return slots
}
