package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/lease"
)

// moment is a reading of both clocks of a process.
type moment = lease.Moment

// machine decides for one member what it may work on, what its lease says, and how the assignment changes. It
// does no input or output and reads no clock, so that it can be simulated. One goroutine at a time uses it.
//
// The caller passes on what happens: a new view of the leases (observe), the health of the process (working), the
// answers to renewals (stored, then answered), and work that has ended (ended). step returns what to do.
type machine struct {
	// What does not change while the group runs.
	process string
	weight  int
	timing  timing
	ranges  bool   // the slots are ranges of hashes, and the caches have those of needs only
	rules   string // how this process divides keys

	name     string
	term     int64
	phase    phase         // only enter writes it
	since    time.Duration // when the phase began
	nextName string        // the name of the next term; empty: the same
	leaving  bool
	able     bool    // the process can work, or could not only for a short time
	failing  lasting // it cannot work
	cached   slotSet // with ranges: the slots whose objects the caches have
	slots    [Slots]slotWork
	written  history // what this process wrote

	renewals
	observed
	planning
}

// phase is the state of a member's term.
type phase uint8

const (
	// joining: no renewal of this term has been confirmed. active follows when one is, and lapsed when another
	// process, or a person, has written to the lease.
	joining phase = iota
	// active: slots can be worked on. lapsed follows when no renewal was confirmed in time, another process or a
	// person has written to the lease, or a reconcile that does not end keeps members with other rules waiting.
	active
	// lapsed: work has to end. joining follows, in the next term, when it has or the others do not wait any more.
	lapsed
)

// enter makes a phase the current one.
func (m *machine) enter(now moment, p phase) {
	if m.phase != p {
		m.phase, m.since = p, now.Mono
	}
}

// slotState is what this member does with one slot.
type slotState uint8

const (
	// unused: nothing. working follows when the assignment names this member and, with ranges, the caches have the
	// objects; released follows if it names this member and the member must not work on the slot.
	unused slotState = iota
	// working: new work begins. draining follows when the assignment changes the slot, this member leaves, or the
	// term has lapsed.
	working
	// draining: work that has begun has to end. unused follows when it has, and stuck when a new term begins before.
	draining
	// released: the lease says that the work in this epoch has ended. unused follows when the slot has another
	// epoch, or a new term begins.
	freed
	// stuck: work of an earlier term has not ended. Another member may have the slot; this one does not get it
	// before. unused follows when it has ended.
	stuck
)

// slotWork is the state of one slot.
type slotWork struct {
	state slotState
	epoch uint64        // in which the work began, or the slot was released
	since time.Duration // draining: when that began
}

// runs reports whether there is work that counts in this term.
func (w *slotWork) runs() bool { return w.state == working || w.state == draining }

// ends reports whether there is work that has to end.
func (w *slotWork) ends() bool { return w.state == draining || w.state == stuck }

// blocked reports whether this member cannot get a slot, because work does not end.
func (m *machine) blocked(now moment, slot int) bool {
	w := &m.slots[slot]
	return w.state == stuck || w.state == draining && now.Mono-w.since >= m.expiry
}

// lasting is a condition that may hold, and since when.
type lasting struct {
	holds bool
	since time.Duration
}

// set says whether the condition holds now, and returns for how long it has.
func (l *lasting) set(now moment, holds bool) time.Duration {
	if !l.holds || !holds {
		*l = lasting{holds, now.Mono}
	}
	return now.Mono - l.since
}

func newMachine(name, process string, weight int, t timing) *machine {
	return &machine{name: name, process: process, weight: weight, timing: t, term: 1, written: history{}, observed: newObserved(t.expiry)}
}

// todo is what a step wants done.
type todo struct {
	start, stop []Slot      // to begin work on, and to end it
	renewal     *member     // to write to this member's lease
	assignment  *assignment // to write in place of that of the view
	abandoned   string      // the member whose lease to delete
}

// step compares what this member does with the view, and returns what to do.
func (m *machine) step(now moment) (do todo) {
	if m.phase == active && !m.open(now) {
		m.enter(now, lapsed)
	}
	m.stepSlots(now, &do)
	// Members with other rules wait for all slots. One reconcile must not keep them from all others.
	if m.phase == active && m.target != m.view.rules && m.hangs(now) {
		m.enter(now, lapsed)
	}
	// The others do not wait for reconciles that ignore that they were cancelled, and one of them must
	// not keep this member from all other slots.
	if m.phase == lapsed && (m.works() == 0 || now.Mono-m.since >= m.expiry) {
		m.beginTerm(now)
	}
	if m.renewalDue(now) {
		do.renewal = m.renew(now)
	}
	do.assignment = m.plan(now)
	do.abandoned = m.abandoned(now)
	return do
}

// stepSlots takes over for all slots what the assignment says.
func (m *machine) stepSlots(now moment, do *todo) {
	me := -1
	if m.phase == active {
		me = slices.Index(m.owners, owner{m.name, m.term})
	}
	for i := range m.slots {
		slot, p, w := Slot(i), &m.view.slots[i], &m.slots[i]
		mine := me >= 0 && m.ownerOf[i] == me
		// A person can write an assignment by which a member with other rules owns slots.
		stays := mine && p.next == "" && !m.leaving && m.rules == m.view.rules
		if w.state == freed && w.epoch != p.epoch {
			*w = slotWork{} // the group has moved on
		}
		switch {
		case w.state == working && (!stays || w.epoch != p.epoch):
			w.state, w.since = draining, now.Mono
			do.stop = append(do.stop, slot)
		case w.state != unused || !mine:
		case !stays:
			*w = slotWork{state: freed, epoch: p.epoch}
		case !m.ranges || m.cached[i]:
			*w = slotWork{state: working, epoch: p.epoch}
			do.start = append(do.start, slot)
		}
	}
}

// hangs reports whether nothing but work that does not end keeps this member from releasing its slots.
func (m *machine) hangs(now moment) (hangs bool) {
	for i := range m.slots {
		if m.slots[i].state == working {
			return false
		}
		hangs = hangs || m.slots[i].state == draining && m.blocked(now, i)
	}
	return hangs
}

// works returns on how many slots there is work that counts in this term.
func (m *machine) works() (n int) {
	for i := range m.slots {
		if m.slots[i].runs() {
			n++
		}
	}
	return n
}

// beginTerm begins the next term, with no slots.
func (m *machine) beginTerm(now moment) {
	m.enter(now, joining)
	for i := range m.slots {
		switch w := &m.slots[i]; {
		case w.runs():
			w.state = stuck
		case w.state == freed:
			*w = slotWork{}
		}
	}
	m.term++
	if m.nextName != "" {
		m.name, m.nextName, m.term = m.nextName, "", 1
	}
}

// rename ends this term: another process writes to the lease. The next term has another name.
func (m *machine) rename(now moment, name string) {
	m.enter(now, lapsed)
	m.nextName = name
}

// ended records that the work on a slot has ended.
func (m *machine) ended(slot Slot) { m.slots[slot] = slotWork{} }

// working records whether the process can work, such as whether its caches are current. One that could is
// ready until it could not for a lease duration, so that an interrupted watch moves no slots.
func (m *machine) working(now moment, can bool) {
	failed := m.failing.set(now, !can)
	m.able = can || m.able && failed < m.timing.expiry
}

// ready reports whether slots can be placed on this member: its own watch shows its lease, and
// the process can work.
func (m *machine) ready() bool { return m.phase == active && m.able }

// check returns nil while work on a slot that began in the given epoch may go on, and otherwise an
// error that wraps [controller.ErrNotLeading]. Work that is being drained may go on: the slot is
// released when it has ended.
func (m *machine) check(now moment, slot Slot, epoch uint64) error {
	if err := m.lapsed(now); err != nil {
		return err
	}
	if w := m.slots[slot]; !w.runs() || w.epoch != epoch || m.view.slots[slot].owner != (owner{m.name, m.term}) {
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

// needs returns the slots whose objects the caches must have, if the slots are ranges: those that
// this member works on or drains, owns, is about to get, or should have.
func (m *machine) needs() (needs slotSet) {
	for i := range needs {
		p, w := &m.view.slots[i], &m.slots[i]
		needs[i] = w.runs() || w.state == stuck || p.owner.name == m.name || p.next == m.name || m.settledPlaces[i] == m.name
	}
	return needs
}

// empty reports whether this member works on no slot in this term and either owns none or has no other member
// to give them to, so that it can leave.
func (m *machine) empty() bool {
	return m.works() == 0 && (!slices.ContainsFunc(m.candidates, func(c candidate) bool { return c.name != m.name }) ||
		!slices.ContainsFunc(m.view.slots[:], func(p placement) bool { return p.owner.name == m.name }))
}

// waiting returns how many slots are to be handed over to this member, and whether it takes part.
func (m *machine) waiting() (slots int, joined bool) {
	for i, name := range m.places {
		if name == m.name && m.slots[i].state != working {
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
