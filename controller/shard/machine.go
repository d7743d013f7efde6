package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarnproject/tarn/controller"
)

// timing are the durations of the protocol. See the package documentation for why they are safe.
type timing struct {
	// renew is the time between two renewals, and request how long a request may take.
	renew, request time.Duration
	// lapse is how long after the sending of its last confirmed renewal a member may work.
	lapse time.Duration
	// expiry is how long another member must not have seen a lease change before it takes the
	// slots away.
	expiry time.Duration
	// settle is how long the set of members must not have changed before slots are moved, and
	// settleMax how long changes can put that off.
	settle, settleMax time.Duration
	// patience is how much longer each member waits than the one before it in the order of
	// names before it writes an assignment that is due.
	patience time.Duration
}

func timingOf(lease time.Duration) timing {
	return timing{
		renew: lease / 3, request: lease * 2 / 15, lapse: lease * 2 / 3, expiry: lease,
		settle: lease * 2 / 15, settleMax: lease * 2 / 3, patience: lease * 2 / 15,
	}
}

// moment is a reading of both clocks of a process.
type moment struct {
	mono time.Duration // since the start; it stops while the machine is suspended
	wall time.Time     // it can be set
}

// since returns how much time has passed, by the clock that shows more.
func (m moment) since(then moment) time.Duration { return max(m.mono-then.mono, m.wall.Sub(then.wall)) }

// member is the lease of a member.
type member struct {
	version  string // its resource version, which changes with each renewal
	process  string // distinguishes processes that have the same name
	life     int64
	weight   int
	leaving  bool
	released released
}

// view is one state of the group's leases: all of them at one resource version.
type view struct {
	members map[string]member
	version string // of the assignment; empty if there is none
	slots   assignment
	// known is false if there is no assignment, or none that can be read. Members may still work
	// on slots that an earlier one gave them.
	known bool
}

// machine decides for one member what it may work on and how the assignment changes. It does no
// input or output and reads no clock, so that it can be simulated. One goroutine at a time uses
// it.
type machine struct {
	name    string
	process string
	weight  int
	timing  timing

	phase    phase
	life     int64
	leaving  bool
	released released // of this life

	// sent are renewals that the server has stored and that the view does not show yet, oldest
	// first. confirmed is when the last one that the view shows was sent.
	sent      []renewal
	confirmed moment

	view view
	// seen is when each lease was first seen as it is in the view, and missing since when each
	// owner in the assignment has no lease.
	seen    map[string]sighting
	missing map[string]time.Duration
	first   time.Duration // when the first view came; negative: none
	unknown time.Duration // since when the assignment has been unknown; negative: it is known
	// candidates are the members that slots can be placed on, and places the best one for each
	// slot; changed is when they last changed,
	// and unsettled when they first changed after a quiet time.
	candidates         []candidate
	places             [Slots]string
	changed, unsettled time.Duration
	due                time.Duration // since when a plan is due; negative: none

	// held are the slots that this member works on or drains.
	held map[Slot]holding
}

// phase is where a member is in its life.
type phase uint8

const (
	// joining: no renewal of this life has been confirmed.
	joining phase = iota
	// active: slots can be worked on until the lease lapses.
	active
	// lapsed: work has to end; after that a new life begins.
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
	epoch    uint64 // in which the work began
	draining bool
}

func newMachine(name, process string, weight int, t timing) *machine {
	return &machine{
		name: name, process: process, weight: weight, timing: t, life: 1, released: released{}, due: -1, unknown: -1, first: -1,
		seen: map[string]sighting{}, missing: map[string]time.Duration{}, held: map[Slot]holding{},
	}
}

// lease returns what this member's lease must say.
func (m *machine) lease() member {
	return member{process: m.process, life: m.life, weight: m.weight, leaving: m.leaving, released: m.released}
}

// stored records that the server has stored a renewal, and when it was sent. A response that
// took too long does not count: the others may have stopped waiting for it.
func (m *machine) stored(now, sent moment, version string) {
	if now.since(sent) <= m.timing.request {
		m.sent = append(m.sent, renewal{version, sent})
		m.confirm()
	}
}

// confirm counts the renewal that the view shows. The view then also shows every assignment that
// was written before it.
func (m *machine) confirm() {
	mine := m.view.members[m.name]
	i := slices.IndexFunc(m.sent, func(r renewal) bool { return r.version == mine.version })
	if i < 0 || mine.life != m.life || m.phase == lapsed {
		return
	}
	sent := m.sent[i].at
	m.sent = slices.Delete(m.sent, 0, i+1)
	if m.phase == active && sent.since(m.confirmed) >= m.timing.lapse {
		m.phase = lapsed // it was sent too late to continue this life
		return
	}
	m.phase, m.confirmed = active, sent
}

// observe takes over a new view.
func (m *machine) observe(now moment, v view) {
	m.view = v
	if m.first < 0 {
		m.first = now.mono
	}
	if mine := v.members[m.name]; mine.process == m.process && mine.life > m.life {
		m.phase, m.life = lapsed, mine.life // a person wrote it: others count this life as ended
	}
	for name, other := range v.members {
		if s, ok := m.seen[name]; !ok || s.version != other.version {
			m.seen[name] = sighting{other.version, now.mono}
		}
	}
	for name := range m.seen {
		if _, ok := v.members[name]; !ok {
			delete(m.seen, name)
		}
	}
	switch {
	case v.known:
		m.unknown = -1
	case m.unknown < 0:
		m.unknown = now.mono
	}
	for _, p := range v.slots {
		if _, ok := v.members[p.owner.name]; ok || p.owner.name == "" {
			delete(m.missing, p.owner.name)
		} else if _, ok := m.missing[p.owner.name]; !ok {
			m.missing[p.owner.name] = now.mono
		}
	}
	m.confirm()
}

// check returns nil while work on a slot that began in the given epoch may go on, and otherwise an
// error that wraps [controller.ErrNotLeading]. Work that is being drained may go on: the slot is
// released when it has ended.
func (m *machine) check(now moment, slot Slot, epoch uint64) error {
	if err := m.lapsed(now); err != nil {
		return err
	}
	if h := m.held[slot]; h.epoch != epoch || m.view.slots[slot].owner != (owner{m.name, m.life}) {
		return fmt.Errorf("shard: slot %d was released after epoch %d: %w", slot, epoch, controller.ErrNotLeading)
	}
	return nil
}

// lapsed returns nil while this member may work at all.
func (m *machine) lapsed(now moment) error {
	if m.phase != active {
		return fmt.Errorf("shard: %s is not an active member of its group: %w", m.name, controller.ErrNotLeading)
	}
	if passed := now.since(m.confirmed); passed >= m.timing.lapse {
		return fmt.Errorf("shard: the lease of %s was renewed %v ago and lapsed after %v: %w",
			m.name, passed.Round(time.Millisecond), m.timing.lapse, controller.ErrNotLeading)
	}
	return nil
}

// step compares what this member works on with the view, and returns the slots to start and
// those to stop. The caller stops the work on a slot and calls drained when it has ended.
// changed is true if the lease has to be renewed at once because it says something new.
func (m *machine) step(now moment) (start, stop []Slot, changed bool) {
	if m.phase == active && m.lapsed(now) != nil {
		m.phase = lapsed
	}
	for i := range Slots {
		slot, p := Slot(i), m.view.slots[i]
		h, held := m.held[slot]
		mine := m.phase == active && p.owner == owner{m.name, m.life}
		stay := mine && p.next == "" && !m.leaving
		switch {
		case held && !h.draining && (!stay || h.epoch != p.epoch):
			h.draining = true
			m.held[slot] = h
			stop = append(stop, slot)
		case !held && stay && m.released[slot] != p.epoch:
			m.held[slot] = holding{epoch: p.epoch}
			delete(m.released, slot)
			start = append(start, slot)
		case !held && mine && !stay && m.released[slot] != p.epoch:
			m.released[slot] = p.epoch
			changed = true
		}
		if e, ok := m.released[slot]; ok && p.epoch != e {
			delete(m.released, slot) // the group has moved on
		}
	}
	if m.phase == lapsed && len(m.held) == 0 {
		m.phase, m.released, m.sent, changed = joining, released{}, nil, true
		m.life++
	}
	return start, stop, changed
}

// drained records that the work on a slot has ended.
func (m *machine) drained(slot Slot) { delete(m.held, slot) }

// empty reports whether this member works on no slot and owns none, so that it can leave.
func (m *machine) empty() bool {
	if len(m.held) > 0 {
		return false
	}
	for _, p := range m.view.slots {
		if p.owner.name == m.name {
			return false
		}
	}
	return true
}
