package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

const maxWeight = 100

// Options change how a [Group] works.
type Options struct {
	// Member is the beginning of this process's name in the group, such as the name of its pod.
	// A random suffix is added, because a restarted process is another member. Defaults to the
	// hostname.
	Member string
	// Weight is this member's share of the slots relative to the others, from 1 to 100. Defaults
	// to 1.
	Weight int
	// LeaseDuration is after how long the slots of a crashed member are given to others. All
	// members of a group must have the same. Defaults to 15 seconds, and is at least that:
	// shorter leases leave too little time for requests that are on their way.
	LeaseDuration time.Duration
	// Logger receives slots that come and go, and failed requests. Defaults to none.
	Logger *slog.Logger
}

// Group is this process's membership in a group of processes that share slots. Create one with
// [New]. Its methods are safe for concurrent use.
type Group struct {
	opts   Options
	key    object.Key
	api    *wire.API[*coordinationv1.Lease]
	leases *informer.Informer[*coordinationv1.Lease]
	origin time.Time
	wake   chan struct{} // has room for one: something changed

	mu      sync.RWMutex // guards the machine and all below
	machine *machine
	running bool
	working map[Slot]*fence
	moved   uint64

	// The rest belongs to the goroutine of Run.
	mine      *coordinationv1.Lease // as last stored; nil: not created, or its version is unknown
	renewing  bool
	assigning bool
	nextRenew time.Duration
	// assigned is the version that the last assignment written was based on. Another one with the
	// same base waits until nextAssign: it failed, or the watch does not show it yet.
	assigned      string
	assignmentUID types.UID // of the assignment in the view
	nextAssign    time.Duration
}

// New returns this process's membership in the group with the given name, whose leases are in the
// key's namespace. It needs permission to get, list, watch, create, update and delete leases in
// the group coordination.k8s.io.
func New(client *wire.Client, group object.Key, opts Options) (*Group, error) {
	switch {
	case client == nil:
		return nil, errors.New("shard: no client; wire.New makes one")
	case group.Namespace == "" || group.Name == "":
		return nil, fmt.Errorf("shard: the group %q needs a namespace and a name", group)
	case len(validation.IsDNS1123Label(group.Name)) > 0:
		return nil, fmt.Errorf("shard: the group's name %q must be a DNS label: %s", group.Name, validation.IsDNS1123Label(group.Name)[0])
	case opts.Weight < 0 || opts.Weight > maxWeight:
		return nil, fmt.Errorf("shard: the weight %d is not from 1 to %d", opts.Weight, maxWeight)
	case opts.LeaseDuration != 0 && opts.LeaseDuration < 15*time.Second:
		return nil, fmt.Errorf("shard: LeaseDuration is %v; it must be at least 15s", opts.LeaseDuration)
	case opts.LeaseDuration%time.Second != 0:
		return nil, fmt.Errorf("shard: LeaseDuration is %v; want whole seconds, which is all that a Lease can say", opts.LeaseDuration)
	}
	if opts.Member == "" {
		opts.Member, _ = os.Hostname()
	}
	if opts.Weight == 0 {
		opts.Weight = 1
	}
	if opts.LeaseDuration == 0 {
		opts.LeaseDuration = 15 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	name := label(opts.Member) + "-" + rand.String(6)
	g := &Group{
		opts: opts, key: group, api: wire.For(client, wire.MustOf[*coordinationv1.Lease]()), origin: time.Now(),
		wake: make(chan struct{}, 1), working: map[Slot]*fence{},
		machine: newMachine(name, string(uuid.NewUUID()), opts.Weight, timingOf(opts.LeaseDuration)),
	}
	sel := object.Selection{Namespace: group.Namespace, Labels: groupLabel + "=" + group.Name}
	source, err := stream.NewSource(g.api, sel, stream.Options{})
	if err != nil {
		return nil, err
	}
	g.leases, err = informer.New(source, object.Meta[*coordinationv1.Lease](), informer.Options[*coordinationv1.Lease]{
		Name: "leases of group " + group.String(), Selection: sel, Logger: opts.Logger,
	})
	return g, err
}

// label returns a text as the beginning of a DNS label that leaves room for a suffix.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	text = strings.Trim(text[:min(len(text), 40)], "-")
	if text == "" {
		return "member"
	}
	return text
}

// now reads both clocks.
func (g *Group) now() moment {
	now := time.Now()
	return moment{mono: now.Sub(g.origin), wall: now.Round(0)}
}

func (g *Group) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

var _ controller.Membership = (*Group)(nil)

// work is what [controller.Membership] calls for a slot.
type work = func(ctx context.Context, group string, fence controller.Fence)

// Run implements [controller.Membership]; the groups are slots. It takes part in the group until the
// context is done, then waits for all work to end, hands its slots to other members and leaves.
// The error says why this process could not join.
func (g *Group) Run(ctx context.Context, work work) error {
	g.mu.Lock()
	if g.running {
		g.mu.Unlock()
		return errors.New("shard: running already, or run before; create another group")
	}
	g.running = true
	g.mu.Unlock()

	// The membership outlives ctx until the slots are handed over.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	if _, err := g.leases.SubscribeBatch(func(context.Context, []informer.Event[*coordinationv1.Lease]) { g.wakeUp() }); err != nil {
		return err
	}
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- g.leases.Run(inner) })
	if err := g.leases.WaitSynced(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("shard: join %s: %w", g.key, err)
	}
	return g.loop(ctx, inner, &tasks, work, failed)
}

// pause is how often the loop looks at the clock without another reason.
const pause = 500 * time.Millisecond

func (g *Group) loop(ctx, inner context.Context, tasks *sync.WaitGroup, work work, failed <-chan error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	done := ctx.Done()
	results := make(chan func(), 4)
	var leaveBy time.Duration
	for {
		g.observe()
		leaving := g.turn(inner, tasks, work, results)
		if leaving {
			now := g.now().mono
			if leaveBy == 0 {
				leaveBy = now + g.machine.timing.lapse
			}
			if g.hasLeft() && !g.renewing || now >= leaveBy {
				return g.leave(inner)
			}
		}
		select {
		case <-g.wake:
		case <-tick.C:
		case apply := <-results:
			apply()
		case err := <-failed:
			g.mu.Lock()
			for _, f := range g.working {
				f.close()
			}
			g.mu.Unlock()
			return errors.Join(errors.New("shard: the watch of the group's leases has ended"), err)
		case <-done:
			done = nil
			g.mu.Lock()
			g.machine.leaving = true
			g.mu.Unlock()
			g.nextRenew = 0
		}
	}
}

// observe gives the machine the current leases.
func (g *Group) observe() {
	v := view{members: map[string]member{}}
	old := g.machine.view // only this goroutine replaces it
	prefix := g.key.Name + "-"
	snapshot := g.leases.Snapshot()
	defer snapshot.Release()
	for l := range snapshot.All() {
		name, isMember := strings.CutPrefix(l.Name, prefix)
		switch {
		case isMember:
			m := old.members[name]
			if m.version != l.ResourceVersion {
				m = readMember(l)
			}
			v.members[name] = m
		case l.Name == g.assignmentName() && l.ResourceVersion == old.version:
			v.version, v.slots, v.known = old.version, old.slots, old.known
		case l.Name == g.assignmentName():
			g.assignmentUID = l.UID
			slots, err := parseAssignment(l.Annotations[slotsAnnotation])
			if err != nil {
				g.opts.Logger.Error("the assignment cannot be read; it is written again", "group", g.key.String(), "error", err)
				slots = assignment{}
			}
			v.version, v.slots, v.known = l.ResourceVersion, slots, err == nil
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.machine.observe(g.now(), v)
}

// turn does what the machine says is due. It reports whether this member is leaving.
func (g *Group) turn(ctx context.Context, tasks *sync.WaitGroup, work work, results chan<- func()) (leaving bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, now := g.machine, g.now()
	start, stop, changed := m.step(now)
	for _, slot := range stop {
		g.working[slot].release()
	}
	for slot, f := range g.working {
		// Also if the assignment was deleted: another member gets the slot without asking.
		if m.phase != active || m.view.slots[slot].owner != (owner{m.name, m.life}) {
			f.close()
		}
	}
	for _, slot := range start {
		g.start(ctx, tasks, work, slot)
	}
	if len(start)+len(stop) > 0 {
		g.moved += uint64(len(start))
		g.opts.Logger.Info("slots changed", "group", g.key.String(), "member", m.name, "gained", len(start), "releasing", len(stop))
	}
	switch { // a lapsed member lets its lease expire, so that others take the slots while its work ends
	case m.phase != lapsed && !g.renewing && (changed || now.mono >= g.nextRenew):
		g.nextRenew = now.mono + m.timing.renew
		g.renew(ctx, tasks, results)
	case changed:
		g.nextRenew = 0
	}
	if next, ok := m.plan(now); ok && !g.assigning && (now.mono >= g.nextAssign || m.view.version != g.assigned) {
		g.assign(ctx, tasks, results, next)
	}
	return m.leaving && len(m.held) == 0
}

// start begins the work on a slot.
func (g *Group) start(ctx context.Context, tasks *sync.WaitGroup, work work, slot Slot) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fence{group: g, slot: slot, epoch: g.machine.held[slot].epoch, release: cancel, lost: make(chan struct{})}
	g.working[slot] = f
	tasks.Go(func() {
		defer func() {
			cancel()
			g.mu.Lock()
			defer g.mu.Unlock()
			f.close()
			delete(g.working, slot)
			g.machine.drained(slot)
			g.wakeUp()
		}()
		work(ctx, slot.String(), f)
		<-ctx.Done() // work that ends early keeps the slot
	})
}

// renew writes this member's lease.
func (g *Group) renew(ctx context.Context, tasks *sync.WaitGroup, results chan<- func()) {
	g.renewing = true
	sent, state := g.now(), g.machine.lease()
	state.released = maps.Clone(state.released)
	base := g.mine
	tasks.Go(func() {
		stored, err := g.writeMember(ctx, base, state)
		apply := func() {
			g.renewing = false
			g.mine = stored
			if err == nil {
				g.mu.Lock()
				g.machine.stored(g.now(), sent, stored.ResourceVersion)
				g.mu.Unlock()
			} else if ctx.Err() == nil {
				g.opts.Logger.Warn("the member's lease could not be renewed", "group", g.key.String(), "member", g.machine.name, "error", err)
				g.nextRenew = min(g.nextRenew, g.now().mono+g.machine.timing.renew/5)
			}
		}
		select {
		case results <- apply:
		case <-ctx.Done():
		}
	})
}

// writeMember creates or replaces this member's lease. On failure it returns the lease as the
// server has it, or nil.
func (g *Group) writeMember(ctx context.Context, base *coordinationv1.Lease, state member) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, g.machine.timing.request)
	defer cancel()
	key := g.memberKey()
	if base == nil {
		found, err := g.api.Get(ctx, key, wire.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			l := &coordinationv1.Lease{}
			l.Namespace, l.Name, l.Labels = key.Namespace, key.Name, map[string]string{groupLabel: g.key.Name}
			state.write(l, time.Now(), g.opts.LeaseDuration)
			return g.api.Create(ctx, l, wire.WriteOptions{})
		case err != nil:
			return nil, err
		case value(found.Spec.HolderIdentity) != state.process:
			return nil, fmt.Errorf("shard: another process has the lease %s", key)
		}
		base = found
	}
	l := base.DeepCopy()
	state.write(l, time.Now(), g.opts.LeaseDuration)
	stored, err := g.api.Update(ctx, l, wire.WriteOptions{})
	if err != nil {
		return nil, err // the version may be old: read it next time
	}
	return stored, nil
}

// assignmentName is the name of the lease that has the assignment. No member and no other group has
// it, nor a lease of package leader with the group's name.
func (g *Group) assignmentName() string { return g.key.Name + ".slots" }

func (g *Group) memberKey() object.Key {
	return object.Key{Namespace: g.key.Namespace, Name: g.key.Name + "-" + g.machine.name}
}

// assign writes the assignment, if it is still the one that the new one is based on.
func (g *Group) assign(ctx context.Context, tasks *sync.WaitGroup, results chan<- func(), next assignment) {
	base, uid := g.machine.view.version, g.assignmentUID
	g.assigning, g.assigned, g.nextAssign = true, base, g.now().mono+g.machine.timing.request
	tasks.Go(func() {
		request, cancel := context.WithTimeout(ctx, g.machine.timing.request)
		defer cancel()
		l := &coordinationv1.Lease{}
		l.Namespace, l.Name, l.ResourceVersion = g.key.Namespace, g.assignmentName(), base
		l.UID = uid // without it the server creates a lease that was deleted, whatever the version
		l.Labels = map[string]string{groupLabel: g.key.Name}
		l.Annotations = map[string]string{slotsAnnotation: next.String()}
		verb := g.api.Update
		if base == "" {
			verb = g.api.Create
		}
		_, err := verb(request, l, wire.WriteOptions{})
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			g.opts.Logger.Warn("the assignment could not be written", "group", g.key.String(), "error", err)
		}
		select {
		case results <- func() { g.assigning = false }:
		case <-ctx.Done():
		}
	})
}

// hasLeft reports whether other members have taken over all slots.
func (g *Group) hasLeft() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.machine.empty()
}

// leave deletes this member's lease.
func (g *Group) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.machine.timing.request)
	defer cancel()
	if err := g.api.Delete(ctx, g.memberKey(), wire.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		g.opts.Logger.Warn("the member's lease could not be deleted; it expires", "group", g.key.String(), "error", err)
	}
	return nil
}

// fence is the fence of the work on one slot.
type fence struct {
	group   *Group
	slot    Slot
	epoch   uint64
	release func() // ends the context of the work

	lost   chan struct{}
	closed bool // guarded by the group's lock
}

// close reports the fence as lost. The caller holds the group's lock.
func (f *fence) close() {
	if !f.closed {
		f.closed = true
		close(f.lost)
	}
}

// Check implements [controller.Fence].
func (f *fence) Check() error {
	f.group.mu.RLock()
	defer f.group.mu.RUnlock()
	return f.group.machine.check(f.group.now(), f.slot, f.epoch)
}

// Lost implements [controller.Fence].
func (f *fence) Lost() <-chan struct{} { return f.lost }

// Status is a report on a membership.
type Status struct {
	// Group is the key of the group, and Member this process's name in it.
	Group, Member string
	// Active is true while this member may work.
	Active bool
	// Slots are the slots that it works on, and Draining those that it is about to release.
	Slots, Draining []Slot
	// Members are the names of all members, and Owned how many slots each of them has.
	Members []string
	Owned   map[string]int
	// Moved counts the slots that this member has taken over.
	Moved uint64
}

// Status returns the current status.
func (g *Group) Status() Status {
	g.mu.RLock()
	defer g.mu.RUnlock()
	m := g.machine
	s := Status{Group: g.key.String(), Member: m.name, Active: m.lapsed(g.now()) == nil, Owned: map[string]int{}, Moved: g.moved}
	for slot, h := range m.held {
		if h.draining {
			s.Draining = append(s.Draining, slot)
		} else {
			s.Slots = append(s.Slots, slot)
		}
	}
	for _, p := range m.view.slots {
		if p.owner.name != "" {
			s.Owned[p.owner.name]++
		}
	}
	slices.Sort(s.Slots)
	slices.Sort(s.Draining)
	s.Members = slices.Sorted(maps.Keys(m.view.members))
	return s
}
