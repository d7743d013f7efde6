package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// TestSteppedSimulation runs reflector, FIFO, store and two views of it in one goroutine.
func TestSteppedSimulation(t *testing.T) {
	soak.Measures(t)
	var seen tally
	usual := simulate(t, 200, func(seed uint64, trace *sim.Trace) error {
		return newStepped(seed, trace, nil).run(&seen)
	})
	if !usual {
		return
	}
	for f := range sim.Faults {
		if seen.of(f.String()) == 0 {
			t.Errorf("the fault %q never struck", f)
		}
	}
	for _, what := range []string{"rewinds noticed", "exact batches", "lists", "streamed", "watches", "removals", "catch-ups", "shard changes", "objects outside of a shard",
		"deletions still to come", "deletions ahead of the version"} {
		if seen.of(what) == 0 {
			t.Errorf("there were no %s", what)
		}
	}
	t.Logf("%v", seen.counts)
}

// stepped is one run.
type stepped struct {
	trace      *sim.Trace
	rand       *rand.Rand
	world      *sim.World
	selections []object.Selection
	reflectors []*reflector.Reflector[*sim.Thing]
	buffer     *delta.Buffer[*sim.Thing]
	mirror     *mirror
	changes    []object.Change[*sim.Thing]
	// follower receives every change; laggard receives, from time to time, the difference
	// since it last looked.
	follower, laggard *sim.View
	last              store.Snapshot[*sim.Thing]
	// pass, if set, stands between the store and the follower.
	pass  func([]object.Change[*sim.Thing]) []object.Change[*sim.Thing]
	steps int
	seen  *tally
	err   error
	// shards says that the parts that reflectors mirror change.
	shards bool
}

// newStepped makes a run up. between may put something between the world and the
// reflectors.
func newStepped(seed uint64, trace *sim.Trace, between func(sim.Source) sim.Source) *stepped {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &stepped{trace: trace, rand: r, world: sim.NewWorld(r, trace)}
	s.world.Server.Idle = s.world.Idle
	s.mirror = newMirror(r)
	s.follower = sim.NewView("follower", s.world.Server, trace)
	s.laggard = sim.NewView("laggard", s.world.Server, trace)
	s.selections = randomSelections(r)
	s.shards = r.IntN(3) == 0
	var err error
	if s.buffer, err = delta.NewBuffer[*sim.Thing](delta.BufferOptions{Held: s.mirror.store.Held}); err != nil {
		panic(err)
	}
	var src sim.Source = s.world.Faulty
	if between != nil {
		src = between(src)
	}
	for i, sel := range s.selections {
		opts := randomReflector(r)
		opts.Name = fmt.Sprint("reflector ", i)
		opts.Selection = sel
		opts.Encoder = s.mirror.store.Encoder // which does nothing without a form
		if len(s.selections) > 1 {
			opts.Scope = object.Scope(sel.Namespace)
		}
		opts.OnError = func(err error) { trace.Add("reflector", "%v", err) }
		rf, err := reflector.New(src, s.buffer, opts)
		if err != nil {
			panic(err)
		}
		s.reflectors = append(s.reflectors, rf)
	}
	s.world.Marks = func() (marks []object.Mark) {
		for _, rf := range s.reflectors {
			marks = append(marks, rf.Status().Mark)
		}
		return marks
	}
	return s
}

// randomSelections returns one selection, or one for each of several namespaces.
func randomSelections(r *rand.Rand) []object.Selection {
	var sel object.Selection
	if r.IntN(3) == 0 {
		sel.Labels = "tier in (a,b)"
	}
	switch r.IntN(4) {
	case 0:
		var out []object.Selection
		for _, ns := range sim.Namespaces[:2] {
			sel.Namespace = ns
			out = append(out, sel)
		}
		return out
	case 1:
		sel.Namespace = sim.Namespaces[0]
	}
	return []object.Selection{sel}
}

// randomReflector returns options that make what is rare frequent.
func randomReflector(r *rand.Rand) reflector.Options[*sim.Thing] {
	random := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	opts := reflector.Options[*sim.Thing]{
		MinWatchTimeout: time.Duration(1+r.IntN(5)) * time.Minute,
		Rand:            random.Float64,
	}
	if r.IntN(4) > 0 {
		opts.PageSize = int64(1 + r.IntN(5))
	}
	if r.IntN(3) == 0 {
		opts.Streaming = reflector.StreamingOff
	}
	return opts
}

func (s *stepped) run(seen *tally) error {
	s.seen = seen
	ctx, cancel := context.WithCancel(context.Background())
	defer s.stop(ctx, cancel)
	for range 3 {
		for range 20 + s.rand.IntN(60) {
			if s.rand.IntN(4) == 0 {
				s.world.Move()
			}
			if !s.step(ctx, s.rand.IntN(3) > 0) {
				return s.err
			}
		}
		s.trace.Add("sim", "quiet")
		s.world.Quiet()
		for _, healed := range []bool{false, true} {
			if healed {
				s.world.Heal()
			}
			if err := s.settle(ctx); err != nil {
				return err
			}
			if err := s.check(healed); err != nil {
				return fmt.Errorf("at a quiet point, healed %v: %w", healed, err)
			}
		}
		s.world.Noisy()
	}
	for f, n := range s.world.Faulty.Counts() {
		seen.add(sim.Fault(f).String(), n)
	}
	for _, rf := range s.reflectors {
		c := rf.Status().Counts
		seen.add("rewinds noticed", int(c.Rewinds))
		seen.add("lists", int(c.Lists))
		seen.add("streamed", int(c.Streamed))
		seen.add("watches", int(c.Watches))
		seen.add("objects outside of a shard", int(c.Outside))
	}
	seen.add("steps", s.steps)
	return nil
}

// stop ends the reflectors; what they leave behind, the bubble finds.
func (s *stepped) stop(ctx context.Context, cancel func()) {
	cancel()
	for _, rf := range s.reflectors {
		rf.Step(ctx)
	}
	if n := s.world.Server.Streams(); n > 0 && s.err == nil {
		s.err = fmt.Errorf("%d streams left open", n)
	}
	s.last.Release()
}

// step lets one of the reflectors do one thing, and perhaps the store what is pending. It
// reports whether all is well.
func (s *stepped) step(ctx context.Context, apply bool) bool {
	i := s.rand.IntN(len(s.reflectors))
	rf := s.reflectors[i]
	s.steps++
	if s.shards && !s.world.IsQuiet() && s.rand.IntN(12) == 0 {
		s.selections[i].Shard = randomShard(s.rand, s.world.Server)
		s.trace.Add("sim", "%s has %s", rf.Name(), s.selections[i].Shard.Selector())
		rf.SetShard(s.selections[i].Shard)
		s.seen.add("shard changes", 1)
	}
	if err := rf.Step(ctx); err != nil {
		s.err = fmt.Errorf("step: %w", err)
		return false
	}
	s.trace.Add("reflector", "%v, at %v", rf.Status(), rf.Status().Mark)
	if rf.Status().Removed {
		s.seen.add("removals", 1)
	}
	if apply {
		s.drain(ctx)
		if s.rand.IntN(4) == 0 {
			s.catchUp()
		}
	}
	for _, v := range []*sim.View{s.follower, s.laggard} {
		if s.err == nil {
			s.err = v.Err()
		}
	}
	return s.err == nil
}

// drain applies everything that is pending.
func (s *stepped) drain(ctx context.Context) {
	for s.err == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
		err := s.buffer.PopBatch(ctx, func(b *object.Batch[*sim.Thing]) error {
			var err error
			s.trace.Add("store", "applies %d deltas to %v", len(b.Changes), slices.Clone(b.Marks))
			s.changes, err = s.mirror.store.Apply(b, s.changes[:0])
			if errors.Is(err, store.ErrNotHeld) {
				for _, rf := range s.reflectors {
					rf.Relist(err)
				}
			} else if err != nil {
				s.err = fmt.Errorf("apply: %w", err)
			}
			if s.pass != nil {
				s.changes = s.pass(s.changes)
			}
			follow(s.follower, s.changes)
			s.spread(b)
			return nil
		})
		cancel()
		if err != nil {
			break // nothing is pending
		}
		if err := s.exact(); err != nil {
			s.err = err
		}
	}
}

// spread makes all reflectors begin the epoch that a list of one of them began, as an informer does.
func (s *stepped) spread(b *object.Batch[*sim.Thing]) {
	for i := range b.Changes {
		if l := b.Changes[i].List; l != nil {
			for _, rf := range s.reflectors {
				rf.Rewound(l.Epoch)
			}
		}
	}
}

// exact holds the store against the server's state at the store's own version (Q09),
// unless something is known to stand between them. Deletions show at once, and their version
// when it is complete: what the store lacks may have been deleted at the version that its
// reflector has seen. Nothing that was deleted at the store's version, or before, is still there.
func (s *stepped) exact() error {
	if s.err != nil || !s.world.Exact() {
		return nil
	}
	snap := s.mirror.store.Snapshot()
	defer snap.Release()
	got := stateOf(snap)
	for i, rf := range s.reflectors {
		if rf.Status().Removed {
			return nil
		}
		sel := s.selections[i]
		m := snap.Mark(scopeOf(sel, len(s.reflectors)))
		if !m.Version.Known() {
			continue
		}
		sel.Shard = m.Shard
		want := s.world.Server.StateAt(number(m.Version), sel)
		seen := number(rf.Status().Mark.Version)
		ahead := s.world.Server.StateAt(seen, sel)
		for k := range want {
			if got[k] == nil && ahead[k] == nil {
				delete(want, k)
				s.seen.add("deletions ahead of the version", 1)
			}
		}
		for k := range s.world.Server.DeletedTogether(seen) {
			if got[k] != nil && scopeOf(sel, len(s.reflectors)).Covers(k) {
				s.seen.add("deletions still to come", 1)
			}
		}
		if err := s.world.Compare(within(got, sel), want); err != nil {
			return fmt.Errorf("at version %s of %q: the store %w", m.Version, m.Scope, err)
		}
		s.seen.add("exact batches", 1)
	}
	return nil
}

// catchUp sends the laggard the difference since it last looked.
func (s *stepped) catchUp() {
	next := s.mirror.store.Snapshot()
	s.changes = s.changes[:0]
	for c := range store.Diff(s.last, next) {
		s.changes = append(s.changes, c)
	}
	follow(s.laggard, s.changes)
	s.last.Release()
	s.last = next
	s.seen.add("catch-ups", 1)
}

// settle steps until every reflector has a watch that has delivered everything.
func (s *stepped) settle(ctx context.Context) error {
	const most = 3000
	s.drain(ctx)
	for range most {
		if s.settled() {
			return nil
		}
		if !s.step(ctx, true) {
			return s.err
		}
	}
	var states []string
	for _, rf := range s.reflectors {
		states = append(states, rf.Status().String())
	}
	return fmt.Errorf("after %d steps without faults still not up to date: %s", most, strings.Join(states, "; "))
}

func (s *stepped) settled() bool {
	if s.world.Rewound() {
		return false
	}
	for i, rf := range s.reflectors {
		if !rf.Status().Live() || !s.world.Server.Current(s.selections[i]) {
			return false
		}
	}
	return s.world.Faulty.Drained()
}

// check is what must hold at a quiet point; healed says that all objects are sound.
func (s *stepped) check(healed bool) error {
	s.catchUp()
	snap := s.mirror.store.Snapshot()
	defer snap.Release()
	got := stateOf(snap)
	want := map[object.Key]*sim.Thing{}
	for _, sel := range s.selections {
		for k, t := range s.world.Server.State(sel) {
			want[k] = t
		}
	}
	compare := sim.Compare
	if !healed {
		compare = s.world.Compare
	}
	if err := compare(got, want); err != nil {
		return fmt.Errorf("the store %w", err)
	}
	for _, v := range []*sim.View{s.follower, s.laggard} {
		if err := v.Compare(got); err != nil {
			return err
		}
	}
	for _, rf := range s.reflectors {
		q := rf.Quarantine()
		if err := checkQuarantine(s.world.Server, q); err != nil {
			return err
		}
		if healed && len(q) > 0 {
			return fmt.Errorf("all objects are sound, but in quarantine there is %v at %s", q[0].Key, q[0].Version)
		}
	}
	s.mirror.store.CheckMutations()
	return s.mirror.check(snap)
}
