package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// Membership gives this process a share of the groups of keys. Package shard implements it with
// Leases.
type Membership interface {
	// Run takes part until the context is done. It calls work, in a goroutine of its own, for
	// each group that this process gets. When the context of work is done, work finishes what it
	// does and returns; no other process works on the group before. When the fence is lost, work
	// ends at once: another process may work on the group soon. An error of work says that
	// reconciles still run; the group then stays with this process until its lease has expired.
	Run(ctx context.Context, work func(ctx context.Context, group string, fence Fence) error) error
}

// Claimer is a controller with Options.Claims. Every [*Controller] is one.
type Claimer interface {
	Runner
	// Claim reconciles the keys of a group until the context is done.
	Claim(ctx context.Context, group string) error
}

// Sharded returns a Runner that runs controllers on the groups of keys that this process gets. All
// processes must run the same controllers. Run informers next to it, not in it.
func Sharded(m Membership, controllers ...Claimer) Runner { return &sharded{m, controllers} }

type sharded struct {
	membership Membership
	parts      []Claimer
}

func (s *sharded) stopsFirst() {}

// Run implements [Runner].
func (s *sharded) Run(ctx context.Context) error {
	if s.membership == nil {
		return errors.New("controller: Sharded without a Membership")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(s.parts)+1)
	var running sync.WaitGroup
	for i, c := range s.parts {
		running.Go(func() {
			defer stop()
			errs[i] = c.Run(ctx)
		})
	}
	errs[len(s.parts)] = s.membership.Run(ctx, func(ctx context.Context, group string, fence Fence) error {
		ctx = WithFence(ctx, fence)
		claimed := make([]error, len(s.parts))
		var claims sync.WaitGroup
		for i, c := range s.parts {
			claims.Go(func() {
				if claimed[i] = c.Claim(ctx, group); claimed[i] != nil {
					stop()
				}
			})
		}
		claims.Wait()
		return errors.Join(claimed...)
	})
	stop()
	running.Wait()
	return errors.Join(errs...)
}

// Claim reconciles the keys of one group, in a controller with Options.Claims, until the context is
// done. It is for processes that share the work: each claims its part of the groups.
//
//   - It begins with the keys of the group's current state, as a start of the controller does, and
//     with the last keys that were deleted while the controller ran, up to 8,192 of all groups.
//   - Reconciles of the group have the values of ctx. The fences of ctx and those of Run are checked
//     before a reconcile and before its writes.
//   - When ctx is done, no reconcile of the group starts any more. Running ones have Options.Grace
//     to finish, or until the fence is lost; then they are cancelled. Claim returns when the last
//     one has ended, however long that takes, so that another process can take over. It does not
//     wait that long if Run is ending: the error then says that reconciles still run.
//
// A group can be claimed before Run and stays claimed across runs.
func (c *Controller[K]) Claim(ctx context.Context, group string) error {
	if !c.opts.Claims {
		return fmt.Errorf("controller %s: claim %s: Options.Claims is not set", c.name, group)
	}
	return c.eachRun(ctx, func(r *run[K]) error { return r.claim(ctx, group) })
}

// claim is Claim for one run of the controller.
func (r *run[K]) claim(ctx context.Context, name string) error {
	g := newGroup(ctx, r.sources, r.fences)
	defer g.stop()
	defer g.cancel(nil)
	defer context.AfterFunc(r.intake, g.stop)()
	if ok, err := r.register(name, g); !ok {
		return err
	}
	defer r.feeding.Done()
	r.replay(name)
	select {
	case <-g.intake.Done():
	case <-g.lost:
	}
	ended := r.detach(g)
	grace := time.NewTimer(max(0, r.c.opts.Grace))
	defer grace.Stop()
	cause := ErrStopping
	select {
	case <-ended:
	case <-r.work.Done():
		cause = context.Cause(r.work)
	case <-grace.C:
	case <-g.lost:
		cause = ErrNotLeading
	}
	g.cancel(cause)
	var err error
	select {
	case <-ended:
	case <-r.intake.Done():
		if !endsSoon(ended) {
			err = fmt.Errorf("controller %s: group %s: %v after they were cancelled: %w", r.c.name, name, lastWait, ErrStillRunning)
		}
	}
	r.forget(name)
	return err
}

// replay adds the keys of a group that was just claimed. One goroutine does it for all groups that
// are claimed meanwhile, because each replay reads the whole state of all sources.
func (r *run[K]) replay(name string) {
	r.attaching.Lock()
	defer r.attaching.Unlock()
	r.claimed = append(r.claimed, name)
	if r.replaying {
		return
	}
	r.replaying = true
	r.feeding.Go(func() {
		for {
			r.attaching.Lock()
			names := r.claimed
			r.claimed = nil
			r.replaying = len(names) > 0
			r.attaching.Unlock()
			if len(names) == 0 {
				return
			}
			claimed := func(key K) bool {
				name, _ := r.c.groupOf(key)
				return slices.Contains(names, name)
			}
			for i := range r.sources {
				r.replaySource(&r.sources[i], claimed)
			}
			r.queue.AddWith(workqueue.Request{}, r.deleted.of(claimed)...)
		}
	})
}

func (r *run[K]) replaySource(s *Source[K], claimed func(K) bool) {
	if s.Replay == nil {
		return
	}
	defer r.failOnPanic(r.group, s)
	in := r.intakeOf(s, func(how workqueue.Request, keys ...K) {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key K) bool { return !claimed(key) })
		r.queue.AddWith(how, keys...)
	})
	if err := s.Replay(r.intake, in); err != nil && !r.ending(err) {
		r.fail(fmt.Errorf("controller %s: source %s: %w", r.c.name, s.Name, err))
	}
}

// rememberedDeletions is how many deleted keys a controller with Options.Claims remembers.
const rememberedDeletions = 8192

// deletions are the last deleted keys. While a group is moved between processes, none reconciles
// its keys, and the state that a new owner begins with does not have those that were deleted.
type deletions[K comparable] struct {
	mu   sync.Mutex // guards all below
	ring []K
	next int // where the next key is stored, once the ring is full
	at   map[K]int
}

// add remembers keys, in place of the oldest ones.
func (d *deletions[K]) add(keys ...K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at = map[K]int{}
	}
	for _, key := range keys {
		if len(d.ring) < rememberedDeletions {
			d.at[key] = len(d.ring)
			d.ring = append(d.ring, key)
			continue
		}
		if oldest := d.ring[d.next]; d.at[oldest] == d.next {
			delete(d.at, oldest)
		}
		d.ring[d.next], d.at[key] = key, d.next
		d.next = (d.next + 1) % rememberedDeletions
	}
}

// of returns the keys that match.
func (d *deletions[K]) of(match func(K) bool) (keys []K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, key := range d.ring {
		if d.at[key] == i && match(key) {
			keys = append(keys, key)
		}
	}
	return keys
}
