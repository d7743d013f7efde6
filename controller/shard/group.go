package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/internal/lease"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

const (
	maxWeight                          = 100
	minLeaseDuration, maxLeaseDuration = 15 * time.Second, time.Hour
)

// Options change how a [Group] works.
type Options struct {
	// Member is the beginning of this process's name in the group, such as the name of its pod.
	// A random suffix is added, because a restarted process is another member. Defaults to the
	// hostname.
	Member string
	// Weight is this member's share of the slots relative to the others, from 1 to 100. Defaults
	// to 1.
	Weight int
	// LeaseDuration is after how long the slots of a crashed member are given to others. The
	// longest one of a group's members counts. Defaults to 15 seconds, and is from that to an hour:
	// shorter leases leave too little time for requests that are on their way.
	LeaseDuration time.Duration
	// Caches returns the caches that reconciles read. This member gets slots while all of them are
	// watching, and begins to work on a slot when they have what its earlier owner wrote through a
	// controller.Tracked. It is called at least twice a second. Defaults to none.
	Caches func() []Cache
	// Ranges makes every slot a range of the server's hashes of namespaces, so that the caches of a
	// member need only the objects of its slots. All members must have the same Ranges, and all
	// controllers the Queue.Group [ByRange]. Namespaces whose names differ in the last two characters
	// only are in the same slot or in adjacent ones, so such names are not divided evenly. Defaults
	// to false: slots are spread, and caches need all objects.
	Ranges bool
	// Divide is called with the part of the objects that the Caches need, when Run starts and
	// whenever that changes, if Ranges is set. This member works on a slot when all Caches have its
	// objects. It must not block, and set the part of all Caches that do not have everything, such
	// as with SetShard of an informer that was created with an empty shard. Defaults to none.
	Divide func(part object.Shard)
	// Rules identifies how this process divides keys: the names and versions of what is in Queue.Group of its
	// controllers, if that is not the same in all members for ever. It is called when Run starts. Members with other
	// Rules, or other Ranges, do not work at the same time: those that come later wait until the others have
	// left or crashed. Defaults to none.
	Rules func() string
	// Keys returns how many keys of each slot this process knows, for the Keys of [Status]. It is called
	// whenever a Status is read. Defaults to none.
	Keys func() [Slots]int
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
	clock  lease.Clock
	timing timing
	wake   chan struct{} // has room for one: something changed

	mu         sync.RWMutex // guards the machine and all below
	machine    *machine
	running    bool
	working    map[Slot]*fence
	unfinished error // of work that has not ended
	counts     counts
	renewErr   error // why the last renewal failed, or that it was slow
	assignErr  error // why the last assignment of this member could not be written

	// The rest belongs to the goroutine of Run.
	logs      *logQueue
	mine      *coordinationv1.Lease // as last stored; nil: not created, or its version is unknown
	failed    bool                  // the last renewal
	assigning attempt
	removing  attempt
	divided   *slotSet // what Divide was called with last; nil: not called
}

// attempt is the last request that replaces or deletes a lease of some version.
type attempt struct {
	running bool
	version string
	again   time.Duration // until then no other one is sent: it has failed, or the watch does not show it yet
}

// may reports whether another request may be sent now.
func (a *attempt) may(version string, now moment) bool {
	return !a.running && (a.version != version || now.Mono >= a.again)
}

// New returns this process's membership in the group with the given name, whose leases are in the
// key's namespace. It needs permission to get, list, watch, create, update and delete leases in
// the group coordination.k8s.io. The client should not share a rate limit or a back-off with other
// requests: a renewal that waits for 10 seconds is too late.
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
	case opts.LeaseDuration != 0 && (opts.LeaseDuration < minLeaseDuration || opts.LeaseDuration > maxLeaseDuration):
		return nil, fmt.Errorf("shard: LeaseDuration is %v; it must be from %v to %v", opts.LeaseDuration, minLeaseDuration, maxLeaseDuration)
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
		opts.LeaseDuration = minLeaseDuration
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Caches == nil {
		opts.Caches = func() []Cache { return nil }
	}
	if opts.Rules == nil {
		opts.Rules = func() string { return "" }
	}
	if opts.Keys == nil {
		opts.Keys = func() (none [Slots]int) { return none }
	}
	if opts.Divide == nil {
		opts.Divide = func(object.Shard) {}
	}
	logs := newLogQueue(opts.Logger.Handler())
	opts.Logger = slog.New(logs)
	g := &Group{
		logs: logs, opts: opts, key: group, api: wire.For(client, wire.MustOf[*coordinationv1.Lease]()), clock: lease.NewClock(),
		timing: timingOf(opts.LeaseDuration), wake: make(chan struct{}, 1), working: map[Slot]*fence{},
	}
	g.machine = newMachine(g.newName(), string(uuid.NewUUID()), opts.Weight, g.timing)
	g.machine.ranges = opts.Ranges
	sel := object.Selection{Namespace: group.Namespace, Labels: groupLabel + "=" + group.Name}
	source, err := stream.NewSource(g.api, sel, stream.Options{})
	if err != nil {
		return nil, err
	}
	leases := informer.Options[*coordinationv1.Lease]{
		Name: "leases of group " + group.String(), Selection: sel, Logger: opts.Logger,
	}
	// After an outage the leases are needed at once. A renewal is retried as often.
	leases.Reflector.Backoff.Max = min(g.timing.renew/5, 5*time.Second)
	g.leases, err = informer.New(source, object.Meta[*coordinationv1.Lease](), leases)
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

func (g *Group) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

var _ controller.Membership = (*Group)(nil)

// work is what [controller.Membership] calls for a slot.
type work = func(ctx context.Context, group string, fence controller.Fence) error

// Run implements [controller.Membership]; the groups are slots. It takes part in the group until the
// context is done, then waits for all work to end, hands its slots to other members and leaves.
// The error says what work has not ended.
func (g *Group) Run(ctx context.Context, work work) error {
	g.mu.Lock()
	if g.running {
		g.mu.Unlock()
		return errors.New("shard: running already, or run before; create another group")
	}
	g.running, g.machine.rules = true, rulesOf(g.opts.Rules(), g.opts.Ranges)
	g.mu.Unlock()
	defer g.logs.start()()

	// The membership outlives ctx until the slots are handed over.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	if _, err := g.leases.SubscribeBatch(func(context.Context, []informer.Event[*coordinationv1.Lease]) { g.wakeUp() }, informer.SubOptions[*coordinationv1.Lease]{}); err != nil {
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
		g.divide()
		leaving := g.turn(inner, tasks, work, results)
		if leaving {
			now := g.clock.Now().Mono
			if leaveBy == 0 {
				leaveBy = now + g.timing.lapse
			}
			if g.hasLeft() && g.machine.pending == 0 || now >= leaveBy {
				return g.leave(inner)
			}
		}
		select {
		case <-g.wake:
		case <-tick.C:
		case apply := <-results:
			apply()
		case err := <-failed:
			g.abort()
			return errors.Join(errors.New("shard: the watch of the group's leases has ended"), err)
		case <-done:
			done = nil
			g.mu.Lock()
			g.machine.leaving = true
			g.mu.Unlock()
		}
	}
}

// abort ends all work without handing over, and waits for it as long as a controller does.
func (g *Group) abort() {
	limit := time.NewTimer(g.timing.expiry)
	defer limit.Stop()
	for {
		g.mu.Lock()
		g.machine.enter(g.clock.Now(), lapsed)
		for _, f := range g.working {
			f.Close()
			f.release()
		}
		running := len(g.working)
		g.mu.Unlock()
		if running == 0 {
			return
		}
		select {
		case <-g.wake:
		case <-limit.C:
			return
		}
	}
}

// observe gives the machine the current leases.
func (g *Group) observe() {
	v := view{members: map[string]member{}, assignment: none}
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
			v.version, v.uid, v.assignment, v.known = old.version, old.uid, old.assignment, old.known
		case l.Name == g.assignmentName():
			r, err := readAssignment(l)
			if err != nil {
				g.opts.Logger.Error("the assignment cannot be read; it is written again", "group", g.key.String(), "error", err)
			}
			v.version, v.uid, v.assignment, v.known = l.ResourceVersion, string(l.UID), &r, err == nil
		}
	}
	caches := g.opts.Caches()
	able := !slices.ContainsFunc(caches, func(c Cache) bool { return !handover.Live(c.Sources()) })
	var cached slotSet
	if g.opts.Ranges {
		cached = g.cachedSlots(caches)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	g.machine.working(now, able)
	g.machine.cached = cached
	g.machine.observe(now, v)
}

// turn does what the machine says is due. It reports whether this member is leaving and its work has
// ended.
func (g *Group) turn(ctx context.Context, tasks *sync.WaitGroup, work work, results chan<- func()) (leaving bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, now := g.machine, g.clock.Now()
	do := m.step(now)
	for _, slot := range do.stop {
		if f := g.working[slot]; f != nil {
			f.release()
		}
	}
	for slot, f := range g.working {
		// Also if the assignment was deleted: another member gets the slot without asking.
		if m.check(now, slot, f.epoch) != nil {
			f.Close()
		}
	}
	for _, slot := range do.start {
		g.start(ctx, work, slot)
	}
	if len(do.start)+len(do.stop) > 0 {
		g.opts.Logger.Info("slots changed", "group", g.key.String(), "member", m.name, "gained", len(do.start), "releasing", len(do.stop))
	}
	if do.renewal != nil {
		g.renew(ctx, tasks, results, *do.renewal)
	}
	if do.assignment != nil && g.assigning.may(m.view.version, now) {
		g.assign(ctx, tasks, results, do.assignment)
	}
	if do.abandoned != "" && g.removing.may(m.view.members[do.abandoned].version, now) {
		g.remove(ctx, tasks, results, do.abandoned)
	}
	g.counts.turn(m, now, len(do.start), len(do.stop))
	return m.leaving && len(g.working) == 0
}

// start begins the work on a slot, when the caches have what its earlier owner wrote.
func (g *Group) start(ctx context.Context, work work, slot Slot) {
	ctx, cancel := context.WithCancel(ctx)
	f := g.newFence(slot, cancel)
	g.working[slot] = f
	written := g.machine.view.written
	go func() {
		var err error
		defer func() {
			cancel()
			g.mu.Lock()
			defer g.mu.Unlock()
			f.Close()
			delete(g.working, slot)
			if err == nil {
				g.machine.ended(slot)
			}
			g.unfinished = errors.Join(g.unfinished, err)
			g.wakeUp()
		}()
		if g.await(ctx, written); ctx.Err() == nil {
			err = work(ctx, slot.String(), f)
		}
		<-ctx.Done() // work that ends early keeps the slot
	}()
}

// hasLeft reports whether other members have taken over all slots.
func (g *Group) hasLeft() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.machine.empty()
}
