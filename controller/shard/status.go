package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/lease"
	"github.com/tarnproject/tarn/object"
)

// fence is the fence of the work on one slot.
type fence struct {
	*lease.Fence
	group   *Group
	epoch   uint64
	release func() // ends the context of the work
}

func (g *Group) newFence(slot Slot, release func()) *fence {
	epoch := g.machine.slots[slot].epoch
	check := func() error {
		g.mu.RLock()
		defer g.mu.RUnlock()
		return g.machine.check(g.clock.Now(), slot, epoch)
	}
	return &fence{lease.NewFence(check, fmt.Errorf("shard: slot %d was lost: %w", slot, controller.ErrNotLeading)), g, epoch, release}
}

// Wrote records that a controller.Tracked has written an object, for the next owner of the slot. at is
// the version, and which part of the objects the cache has.
func (f *fence) Wrote(cache string, key object.Key, at object.Mark) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	p := part{Cache: cache, Scope: at.Scope}
	if f.group.opts.Ranges && !at.Shard.IsZero() {
		p.Slot = ByRange(key)
	}
	f.group.machine.written.Add(p, at.Version, f.group.clock.Now().Mono)
}

// counts are the totals of a membership.
type counts struct {
	gained, released uint64
	idle             time.Duration
	began            bool          // turn was called
	last             time.Duration // when turn was called last
	complete         bool          // this member has had all its slots at once
}

// turn counts what happened since the last turn.
func (c *counts) turn(m *machine, now moment, gained, released int) {
	c.gained += uint64(gained)
	c.released += uint64(released)
	if c.began {
		c.idle += time.Duration(m.idle(now)) * (now.Mono - c.last)
	}
	c.began, c.last = true, now.Mono
	if waiting, joined := m.waiting(); joined && waiting == 0 {
		c.complete = true
	}
}

// Status is a report on a membership.
type Status struct {
	// Group is the key of the group, and Member this process's name in it.
	Group, Member string
	// Active is true while this member may work.
	Active bool
	// Slots are the slots that it works on, and Draining those that it is about to release.
	Slots, Draining []Slot
	// Stuck are those of Draining whose reconciles have not ended for more than a lease duration. If the lease
	// lapsed meanwhile, another member works on the slot, and this one gets it when they have ended.
	Stuck []Slot
	// Cause is why this member works on no slots, or which of its requests fails or is slow; nil if there is nothing
	// to report.
	Cause error
	// Waiting is how many slots this member has not received yet. Complete is true if it has
	// had all its slots at some time.
	Waiting  int
	Complete bool
	// Idle is how many slots no member works on, as far as this member sees.
	Idle int
	// Members are all members, sorted by name.
	Members []MemberStatus
	// Gained and Released count the slots that this member began and ended to work on.
	Gained, Released uint64
	// Keys is how many keys are in Slots and Draining; 0 without Options.Keys.
	Keys int
	// IdleTime is for how long slots were idle while this member ran, added up over all slots.
	IdleTime time.Duration
}

// MemberStatus is a report on one member of a group.
type MemberStatus struct {
	// Name is its name, and Weight its weight.
	Name   string
	Weight int
	// Slots is how many slots it owns, and Share how many it should own.
	Slots, Share int
	// Keys is how many keys are in its slots; 0 without Options.Keys. With Options.Ranges it is known
	// for this process only.
	Keys int
	// Ready is true if it gets slots. Leaving is true if it is about to stop, and Expired if it
	// has not renewed its lease.
	Ready, Leaving, Expired bool
}

// Imbalance returns the slots of the member that has the most of them, relative to an equal share by
// weight among the members that can have slots or have some. It is 1 if all have exactly their share.
// It is 0 if no member owns slots.
func (s Status) Imbalance() (most float64) {
	weights := 0
	for _, m := range s.Members {
		if m.Slots > 0 || m.Ready && !m.Leaving && !m.Expired {
			weights += m.Weight
		}
	}
	for _, m := range s.Members {
		if m.Slots > 0 {
			most = max(most, float64(m.Slots*weights)/float64(Slots*m.Weight))
		}
	}
	return most
}

// Status returns the current status.
func (g *Group) Status() Status {
	keys := g.opts.Keys()
	g.mu.RLock()
	defer g.mu.RUnlock()
	m, now, c := g.machine, g.clock.Now(), &g.counts
	s := Status{
		Group: g.key.String(), Member: m.name, Active: m.lapsed(now) == nil, Idle: m.idle(now),
		Complete: c.complete, Gained: c.gained, Released: c.released, IdleTime: c.idle,
	}
	s.Cause = g.cause(now)
	s.Waiting, _ = m.waiting()
	for i := range m.slots {
		if m.blocked(now, i) {
			s.Stuck = append(s.Stuck, Slot(i))
		}
		switch w := &m.slots[i]; {
		case w.ends():
			s.Keys += keys[i]
			s.Draining = append(s.Draining, Slot(i))
		case w.state == working:
			s.Keys += keys[i]
			s.Slots = append(s.Slots, Slot(i))
		}
	}
	owned, share, has := map[string]int{}, map[string]int{}, map[string]int{}
	for i, p := range m.view.slots {
		owned[p.owner.name]++
		share[m.places[i]]++
		if !m.ranges || p.owner.name == m.name {
			has[p.owner.name] += keys[i]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.view.members)) {
		other := m.view.members[name]
		s.Members = append(s.Members, MemberStatus{
			Name: name, Weight: other.weight, Slots: owned[name], Share: share[name], Keys: has[name],
			Ready: other.ready, Leaving: other.leaving, Expired: m.expired(name),
		})
	}
	return s
}

// Ready returns nil if this member has had its share of the slots at some time, and otherwise what it
// waits for. It is for a readiness probe: a rolling update then waits for each hand-over. A member that waits for
// members with other Rules is ready, because a rolling update that changes the rules has to replace these.
func (g *Group) Ready() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	waiting, joined := g.machine.waiting()
	if g.counts.complete || g.machine.ready() && len(g.machine.others()) > 0 {
		return nil
	}
	err := fmt.Errorf("waiting for hand-over of %d slots", waiting)
	if !joined {
		err = fmt.Errorf("%s has not joined the group %s yet", g.machine.name, g.key)
	}
	if cause := g.cause(g.clock.Now()); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// cause returns what keeps this member from working, if anything. The caller holds the group's lock.
func (g *Group) cause(now moment) error {
	all := []error{g.renewErr, g.assignErr}
	if g.running {
		all = append(all, g.machine.lapsed(now))
	}
	for _, s := range g.leases.Sources() {
		all = append(all, s.Err())
	}
	if names := g.machine.others(); len(names) > 0 {
		all = append(all, fmt.Errorf("this member waits until those that divide keys in another way (ShardBy, Rules, Ranges) have left: %s", strings.Join(names, ", ")))
	}
	var cause error
	for _, err := range all {
		switch {
		case cause == nil:
			cause = err
		case err != nil:
			cause = fmt.Errorf("%w; %w", cause, err)
		}
	}
	return cause
}
